"""The paper's experiments and their command line; they need the extra ``experiments``."""
