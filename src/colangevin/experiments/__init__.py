"""Experiments on small problems; they need the extra ``experiments`` (rich, matplotlib)."""
