"""Runnable examples: the demonstration, a gateway before a git server, a treasury server with an embedded gate."""
