"""Which block of which weight a program works on."""

import triton
import triton.language as tl

from colangevin.kernels.columns import ChunkRow, column, width

__all__ = ["own_block", "own_row"]

_ROW = column(ChunkRow, "row")
_BLOCK = column(ChunkRow, "block")
_WIDTH = width(ChunkRow)


@triton.jit
def own_row(chunks):
    """The program's row of the table of weights."""
    return tl.load(chunks + _WIDTH * tl.program_id(0) + _ROW)


@triton.jit
def own_block(chunks):
    """The number of the program's block in its weight."""
    return tl.load(chunks + _WIDTH * tl.program_id(0) + _BLOCK).to(tl.int64)
