"""Real processes, killed at named points and started again."""
