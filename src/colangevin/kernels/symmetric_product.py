"""Symmetric products of many matrices of one shape, at half the work: a tile and its mirror image are one."""

import triton
import triton.language as tl

__all__ = ["symmetric_product"]


@triton.jit
def _above(number):
    """The tile of this number among those on and above the diagonal, which are counted column by column."""
    column = ((tl.sqrt(8.0 * number + 1.0) - 1.0) * 0.5).to(tl.int32)
    column = tl.where((column + 1) * (column + 2) // 2 <= number, column + 1, column)  # the root is rounded
    column = tl.where(column * (column + 1) // 2 > number, column - 1, column)
    return number - column * (column + 1) // 2, column


@triton.jit
def symmetric_product(
    stack,  # matrices X (m, k), one after the other
    addend,  # matrices D (m, m), symmetric
    result,  # matrices (m, m)
    scales,  # float32 (3,): of X X^T, of D and of I
    m,
    k,
    tiles,  # of a matrix, on and above the diagonal
    ADD: tl.constexpr,  # whether there is a D
    EVEN: tl.constexpr,  # whether k is a multiple of DEPTH
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """X X^T, D and I, each times a number, added for every matrix of a stack."""
    i, j = _above(tl.program_id(0) % tiles)
    matrix = (tl.program_id(0) // tiles).to(tl.int64)
    X, at = stack + matrix * m * k, result + matrix * m * m
    rows, columns = i * BLOCK + tl.arange(0, BLOCK), j * BLOCK + tl.arange(0, BLOCK)
    exists, across = rows < m, columns < m
    # what lies outside of the matrix is read from its first row, and not written
    r, c = tl.where(exists, rows, 0), tl.where(across, columns, 0)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, DEPTH):
        d = start + tl.arange(0, DEPTH)
        left_at, right_at = X + r[:, None] * k + d[None, :], X + c[:, None] * k + d[None, :]
        if EVEN:
            left, right = tl.load(left_at), tl.load(right_at)
        else:
            inside = d[None, :] < k
            left, right = tl.load(left_at, mask=inside, other=0.0), tl.load(right_at, mask=inside, other=0.0)
        total = tl.dot(left, tl.trans(right), total, input_precision="ieee")
    total = total * tl.load(scales) + tl.where(rows[:, None] == columns[None, :], tl.load(scales + 2), 0.0)
    here = rows[:, None] * m + columns[None, :]
    held = exists[:, None] & across[None, :]
    if ADD:
        total += tl.load(scales + 1) * tl.load(addend + matrix * m * m + here, mask=held, other=0.0)
    value = total.to(result.dtype.element_ty)
    tl.store(at + here, value, mask=held)
    if i != j:
        mirrored = columns[:, None] * m + rows[None, :]
        tl.store(at + mirrored, tl.trans(value), mask=across[:, None] & exists[None, :])
