"""A gated server for reviewers of SEP-2848: everything that the conformance suite can ask of a deployment is there."""
