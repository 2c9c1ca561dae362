"""Tests of the shapes, comparisons, signatures, seals and expressions on the wire."""
