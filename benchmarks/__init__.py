"""Benchmarks: a constrained step beside SGD and beside what others offer for the same constraint."""
