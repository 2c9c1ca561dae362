"""The wire: shapes, comparisons, signatures and expressions that both ends must get identically right.

Pure: no network, no file, no clock, and nothing of this project outside this folder.
"""
