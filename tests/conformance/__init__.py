"""The project seen from outside: what is built from it, and what others may rely on."""
