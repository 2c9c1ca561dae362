"""What every conformance suite of this repository is made of: checks, verdicts, reports, a deployment's hands.

It knows no protocol and neither side of one; a suite brings its checks, and how it speaks.
"""
