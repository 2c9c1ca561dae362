"""A decision point with the fixture of the AuthZEN certification scenario, for test harnesses."""
