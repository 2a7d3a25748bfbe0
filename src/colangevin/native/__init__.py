"""The CPU's fast path: C code that is compiled with the package and called with addresses.

Without it everything works in plain torch, slower. ``python -m colangevin info`` says which is in use.
"""
