"""Which block of which weight a program works on."""

import triton
import triton.language as tl

from colangevin.kernels.columns import ChunkRow, column, width

__all__ = ["own_chunk"]

_ROW = column(ChunkRow, "row")
_BLOCK = column(ChunkRow, "block")
_WIDTH = width(ChunkRow)


@triton.jit
def own_chunk(chunks):
    """The program's row of the table of weights, and the number of its block."""
    chunk = chunks + _WIDTH * tl.program_id(0)
    return tl.load(chunk + _ROW), tl.load(chunk + _BLOCK).to(tl.int64)
