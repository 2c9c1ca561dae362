"""Each file mirrors one module of `arap_service/auditing`."""
