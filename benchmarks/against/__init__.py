"""This version of the library beside another one: ``python -m benchmarks.against PATH``."""
