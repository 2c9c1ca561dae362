"""A service that misbehaves on request, for whoever builds an enforcement point. See docs/simulator.md."""
