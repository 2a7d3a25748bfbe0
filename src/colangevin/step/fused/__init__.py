"""Steps on CUDA: the tables and launches of :mod:`colangevin.kernels`, and which parameters take them.

``eligible`` decides, ``families`` makes the mover of each family, ``mover`` has what the families share. Only
``eligible`` and ``families`` can be imported without Triton; ``families`` imports the others when called.
"""
