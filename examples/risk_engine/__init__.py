"""An automated resolver that scores what is asked for, and decides only what it is sure of."""
