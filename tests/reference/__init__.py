"""Slow float64 transcriptions of the paper's algorithms, the oracles of the test suite."""
