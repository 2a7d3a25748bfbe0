"""The paper's experiments on small networks; they need the extra ``experiments``."""
