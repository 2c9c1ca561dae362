"""HTTP: parses, authenticates, calls a use case, renders; decides nothing itself."""
