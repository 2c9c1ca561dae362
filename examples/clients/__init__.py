"""Scripts for clients that are not ours; each is run as a program of its own."""
