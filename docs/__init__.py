"""The documentation, and the scripts that its numbers come from."""
