"""The conformance suite for SEP-2848, tried on a correct server that is not ours and on many that are not correct."""
