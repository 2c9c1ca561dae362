"""Who may decide, on every way there is to decide."""
