"""The CPU's fast path: C code that is compiled with the package and called with addresses.

Without it steps are taken in plain torch, slower; ``python -m colangevin info`` says which of both is in use.
"""
