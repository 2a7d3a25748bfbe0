"""Results on disk: what is written, how it is read back, and what is refused."""
