"""The rules of the service as pure functions: no SQL, no HTTP, no clock, no settings."""
