"""Examples in full: each module is a script, ``python -m examples.logistic_regression``."""
