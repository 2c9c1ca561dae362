"""The gateway before the reference git server: rules and configuration, nothing to run."""
