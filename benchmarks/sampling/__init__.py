"""Samplers beside each other on laws with known answers: ``python -m benchmarks.sampling``."""
