"""The suite for access request services, tried on one that is not ours and on many that are not correct."""
