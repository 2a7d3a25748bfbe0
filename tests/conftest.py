"""Without a CUDA device Triton's interpreter runs the kernels; ask for it before Triton is imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
