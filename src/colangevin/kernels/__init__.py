"""Device code: Triton functions, and the columns of the tables that they read."""
