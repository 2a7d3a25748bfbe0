r"""Orthogonality steps on the GPU: every matrix of a model in each launch, nothing decided on the host.

Matrices are worked on as :math:`X = Q^T \in R^{s \times r}`, :math:`X X^T = I`: the layout of a wide weight.
The projection is that of :class:`colangevin.Orthogonal`, with iterations that stop on the device, each matrix
for itself:

1. quasi-Newton in Gram form for M, :math:`X' = \bar X - M X`;
2. where that does not converge, Newton-Schulz for :math:`Z = (\bar X \bar X^T)^{-1/2}`, :math:`X' = Z
   \bar X`;
3. a last correction :math:`X'' = (I - \frac12 E + \frac38 E^2) X'`, :math:`E = X' X'^T - I`, with E in full
   float32. It turns an error e into :math:`\frac5{16} e^3`, so the products before it may use TF32.

A matrix for which all of this fails (a step thousands of times too long) stays where it was and loses its
momentum. Every kernel takes the same table of matrices and a list of the tiles its programs work on.
"""

import triton
import triton.language as tl

__all__ = ["COLUMNS", "ENOUGH", "REACH"]

#: columns of the table: addresses of the configuration X and its momentum P, offset of the matrix in the
#: s x r workspaces (X_bar and X') and in the s x s ones, s, r, and the length of a row in the s x s ones
COLUMNS = 7
_COLUMNS = tl.constexpr(COLUMNS)
#: error at which an iteration may stop: the last correction makes 3e-13 of it
ENOUGH = 1e-4
_ENOUGH = tl.constexpr(ENOUGH)
#: largest error that the last correction is trusted with
REACH = 1e-2
_REACH = tl.constexpr(REACH)


@triton.jit
def _matrix(table, tiles, BLOCK: tl.constexpr):
    """The program's matrix: number, row of the table, s, r, strides; and the rows and columns of its tile."""
    program = tl.program_id(0)
    matrix = tl.load(tiles + 3 * program)
    i = tl.load(tiles + 3 * program + 1) * BLOCK + tl.arange(0, BLOCK)
    j = tl.load(tiles + 3 * program + 2) * BLOCK + tl.arange(0, BLOCK)
    row = table + matrix * _COLUMNS
    s, r = tl.load(row + 4).to(tl.int32), tl.load(row + 5).to(tl.int32)
    return matrix, row, s, r, i, j


@triton.jit
def _band(row, workspace, WHICH: tl.constexpr, i, k, s, r, LAYOUT: tl.constexpr):
    """Addresses of rows i and columns k of an s x r matrix, and which of them exist."""
    if WHICH == "X":
        base = tl.load(row).to(tl.pointer_type(tl.float32))
    elif WHICH == "P":
        base = tl.load(row + 1).to(tl.pointer_type(tl.float32))
    else:
        base = workspace + tl.load(row + 2)
    inside = (i[:, None] < s) & (k[None, :] < r)
    if LAYOUT == "tall":  # the weight is X^T
        return base + k[None, :] * s + i[:, None], inside
    if LAYOUT == "aligned":  # every row begins at a multiple of 16 bytes
        base = tl.multiple_of(base, 16)
        r = tl.multiple_of(r, 4)
    return base + i[:, None] * r + k[None, :], inside


@triton.jit
def _square(workspace, row, i, j, s):
    """Addresses of rows i and columns j of an s x s matrix, and which of them exist."""
    inside = (i[:, None] < s) & (j[None, :] < s)
    length = tl.multiple_of(tl.load(row + 6).to(tl.int32), 16)
    base = tl.multiple_of(workspace + tl.load(row + 3), 16)
    return base + i[:, None] * length + j[None, :], inside


@triton.jit
def _read(where):
    return tl.load(where[0], mask=where[1], other=0.0)


@triton.jit
def _product(workspace_left, workspace_right, row, i, j, s, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Tile (i, j) of the product of two s x s matrices."""
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, s, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left = _read(_square(workspace_left, row, i, k, s))
        right = _read(_square(workspace_right, row, k, j, s))
        total = tl.dot(left, right, total, input_precision=PRECISION)
    return total


@triton.jit
def _largest(value, inside):
    """Largest absolute entry of a tile; infinity when one is NaN."""
    size = tl.where(inside, tl.abs(value), 0.0)
    size = tl.where(size == size, size, float("inf"))
    return tl.max(tl.max(size, 1), 0)


@triton.jit
def inner(
    table,
    tiles,
    ahead,  # s x r workspace: X_bar
    out,  # s x s workspace
    LEFT: tl.constexpr,  # "X"; "P" or "X_bar" on the right
    RIGHT: tl.constexpr,
    LAYOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """L R^T of two s x r matrices."""
    _, row, s, r, i, j = _matrix(table, tiles, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, r, DEPTH):
        k = start + tl.arange(0, DEPTH)
        left = _read(_band(row, ahead, LEFT, i, k, s, r, LAYOUT))
        right = _read(_band(row, ahead, RIGHT, j, k, s, r, LAYOUT))
        total = tl.dot(left, tl.trans(right), total, input_precision=PRECISION)
    where, inside = _square(out, row, i, j, s)
    tl.store(where, total, mask=inside)


@triton.jit
def gram_error(
    table,
    tiles,  # on and above the diagonal
    matrices,  # s x r workspace: X_bar or X'
    error,  # s x s workspace: X X^T - I
    half,  # s x s workspace: half of it, the quasi-Newton iteration's first M
    size,  # float32 (matrices,): its largest entry
    squares,  # float32 (matrices,): the sum of squares of X X^T
    LAYOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """How far X X^T is from I."""
    matrix, row, s, r, i, j = _matrix(table, tiles, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, r, DEPTH):
        k = start + tl.arange(0, DEPTH)
        left = _read(_band(row, matrices, "workspace", i, k, s, r, LAYOUT))
        right = _read(_band(row, matrices, "workspace", j, k, s, r, LAYOUT))
        total = tl.dot(left, tl.trans(right), total, input_precision=PRECISION)
    _, inside = _square(error, row, i, j, s)
    value = total - tl.where(i[:, None] == j[None, :], 1.0, 0.0)
    _store_mirrored(error, half, row, i, j, s, value)
    tl.atomic_max(size + matrix, _largest(value, inside))
    twice = tl.where(tl.min(i, 0) == tl.min(j, 0), 1.0, 2.0)
    tl.atomic_add(squares + matrix, twice * tl.sum(tl.sum(tl.where(inside, total * total, 0.0), 1), 0))


@triton.jit
def _store_mirrored(error, half, row, i, j, s, value):
    where, inside = _square(error, row, i, j, s)
    tl.store(where, value, mask=inside)
    where, inside = _square(half, row, i, j, s)
    tl.store(where, 0.5 * value, mask=inside)
    mirrored = tl.trans(value)
    where, inside = _square(error, row, j, i, s)
    tl.store(where, mirrored, mask=inside)
    where, inside = _square(half, row, j, i, s)
    tl.store(where, 0.5 * mirrored, mask=inside)


@triton.jit
def quasi_newton(
    table,
    tiles,  # on and above the diagonal
    error,  # E = X_bar X_bar^T - I
    slope,  # B = X X_bar^T
    old,  # M
    new,  # M + (E - MB - (MB)^T + M^2)/2
    size_before,  # float32 (matrices,): largest entry of the residual of the iteration before
    size,  # of this one
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One quasi-Newton iteration; with Y = M (M/2 - B) the residual is E + Y + Y^T."""
    matrix, row, s, _, i, j = _matrix(table, tiles, BLOCK)
    before = tl.load(size_before + matrix)
    here, inside = _square(old, row, i, j, s)
    M = tl.load(here, mask=inside, other=0.0)
    if (before > _ENOUGH) & (before < 1e3):
        above = tl.zeros((BLOCK, BLOCK), tl.float32)  # Y at (i, j)
        below = tl.zeros((BLOCK, BLOCK), tl.float32)  # Y at (j, i)
        for start in range(0, s, BLOCK):
            k = start + tl.arange(0, BLOCK)
            left = _read(_square(old, row, i, k, s))
            right = 0.5 * _read(_square(old, row, k, j, s)) - _read(_square(slope, row, k, j, s))
            above = tl.dot(left, right, above, input_precision=PRECISION)
            left = _read(_square(old, row, j, k, s))
            right = 0.5 * _read(_square(old, row, k, i, s)) - _read(_square(slope, row, k, i, s))
            below = tl.dot(left, right, below, input_precision=PRECISION)
        residual = _read(_square(error, row, i, j, s)) + above + tl.trans(below)
        M = M + 0.5 * residual
        tl.atomic_max(size + matrix, _largest(residual, inside))
    else:
        tl.atomic_max(size + matrix, before)
    here, inside = _square(new, row, i, j, s)
    tl.store(here, M, mask=inside)
    here, inside = _square(new, row, j, i, s)
    tl.store(here, tl.trans(M), mask=inside)


@triton.jit
def polar_start(
    table,
    tiles,
    error,
    squares,
    size,  # of the quasi-Newton iteration's last residual
    Y,
    Z,
    polar_size,  # float32 (matrices,): 1 for matrices that need the polar factor, else 0
    BLOCK: tl.constexpr,
):
    """Y = A / |A|_F and Z = I for the matrices on which quasi-Newton failed."""
    matrix, row, s, _, i, j = _matrix(table, tiles, BLOCK)
    if not (tl.load(size + matrix) <= _ENOUGH):
        identity = tl.where(i[:, None] == j[None, :], 1.0, 0.0)
        scale = tl.sqrt(tl.load(squares + matrix))
        A = _read(_square(error, row, i, j, s)) + identity
        here, inside = _square(Y, row, i, j, s)
        tl.store(here, A / scale, mask=inside)
        here, inside = _square(Z, row, i, j, s)
        tl.store(here, identity, mask=inside)
        tl.atomic_max(polar_size + matrix, 1.0)


@triton.jit
def polar_factor(table, tiles, Y, Z, T, size_before, size, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """T = (3 I - Z Y)/2 of a Newton-Schulz iteration."""
    matrix, row, s, _, i, j = _matrix(table, tiles, BLOCK)
    before = tl.load(size_before + matrix)
    if before > _ENOUGH:
        identity = tl.where(i[:, None] == j[None, :], 1.0, 0.0)
        ZY = _product(Z, Y, row, i, j, s, PRECISION, BLOCK)
        here, inside = _square(T, row, i, j, s)
        tl.store(here, 1.5 * identity - 0.5 * ZY, mask=inside)
        tl.atomic_max(size + matrix, _largest(identity - ZY, inside))
    else:
        tl.atomic_max(size + matrix, before)


@triton.jit
def polar_step(
    table, tiles, Y, Z, T, Y_new, Z_new, size_before, PRECISION: tl.constexpr, BLOCK: tl.constexpr
):
    """Y <- Y T and Z <- T Z of a Newton-Schulz iteration, or copies once it has converged."""
    matrix, row, s, _, i, j = _matrix(table, tiles, BLOCK)
    before = tl.load(size_before + matrix)
    here, inside = _square(Y_new, row, i, j, s)
    there, _ = _square(Z_new, row, i, j, s)
    if before > _ENOUGH:
        tl.store(here, _product(Y, T, row, i, j, s, PRECISION, BLOCK), mask=inside)
        tl.store(there, _product(T, Z, row, i, j, s, PRECISION, BLOCK), mask=inside)
    elif before > 0:
        tl.store(here, _read(_square(Y, row, i, j, s)), mask=inside)
        tl.store(there, _read(_square(Z, row, i, j, s)), mask=inside)


@triton.jit
def land(
    table,
    tiles,  # of s x r matrices
    ahead,  # X_bar
    landed,  # X'
    M,
    Z,
    squares,
    size,  # of the quasi-Newton iteration's last residual
    rates,  # float32: drift a first
    MOMENTUM: tl.constexpr,  # whether there is a momentum to carry along
    LAYOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """X' = X_bar - M X and P - M X/a, or X' = Z X_bar and (X' - X)/a."""
    matrix, row, s, r, i, k = _matrix(table, tiles, BLOCK)
    oblique = tl.load(size + matrix) <= _ENOUGH
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, s, BLOCK):
        j = start + tl.arange(0, BLOCK)
        if oblique:
            left = _read(_square(M, row, i, j, s))
            right = _read(_band(row, ahead, "X", j, k, s, r, LAYOUT))
        else:
            left = _read(_square(Z, row, i, j, s))
            right = _read(_band(row, ahead, "X_bar", j, k, s, r, LAYOUT))
        total = tl.dot(left, right, total, input_precision=PRECISION)
    a = tl.load(rates)
    step = tl.where(a > 0, 1.0 / tl.where(a > 0, a, 1.0), 0.0)
    X = _read(_band(row, ahead, "X", i, k, s, r, LAYOUT))
    if oblique:
        X_new = _read(_band(row, ahead, "X_bar", i, k, s, r, LAYOUT)) - total
    else:
        X_new = total / tl.sqrt(tl.sqrt(tl.load(squares + matrix)))
    here, inside = _band(row, landed, "X'", i, k, s, r, LAYOUT)
    tl.store(here, X_new, mask=inside)
    if MOMENTUM:
        here, inside = _band(row, ahead, "P", i, k, s, r, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0)
        tl.store(here, tl.where(oblique, P - step * total, step * (X_new - X)), mask=inside)


@triton.jit
def correction(table, tiles, error, out, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """-E/2 + 3 E^2/8, the second-order expansion of (I + E)^(-1/2) - I."""
    _, row, s, _, i, j = _matrix(table, tiles, BLOCK)
    square = _product(error, error, row, i, j, s, PRECISION, BLOCK)
    here, inside = _square(out, row, i, j, s)
    tl.store(here, 0.375 * square - 0.5 * _read(_square(error, row, i, j, s)), mask=inside)


@triton.jit
def correct(
    table,
    tiles,  # of s x r matrices
    landed,  # X'
    C,
    size,  # largest entry of X' X'^T - I
    MOMENTUM: tl.constexpr,
    LAYOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """X = X' + C X'; where X' is too far off for that, X stays and P is 0."""
    matrix, row, s, r, i, k = _matrix(table, tiles, BLOCK)
    if tl.load(size + matrix) <= _REACH:
        total = _read(_band(row, landed, "X'", i, k, s, r, LAYOUT))
        for start in range(0, s, BLOCK):
            j = start + tl.arange(0, BLOCK)
            left = _read(_square(C, row, i, j, s))
            right = _read(_band(row, landed, "X'", j, k, s, r, LAYOUT))
            total = tl.dot(left, right, total, input_precision=PRECISION)
        here, inside = _band(row, landed, "X", i, k, s, r, LAYOUT)
        tl.store(here, total, mask=inside)
    elif MOMENTUM:
        here, inside = _band(row, landed, "P", i, k, s, r, LAYOUT)
        tl.store(here, tl.zeros((BLOCK, BLOCK), tl.float32), mask=inside)


@triton.jit
def tangent(
    table,
    tiles,  # of s x r matrices
    ahead,  # X_bar
    S,  # X P^T
    rates,
    AHEAD: tl.constexpr,  # whether to write X_bar = X + a P too
    LAYOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """P <- P - (S + S^T) X / 2, the projection onto the cotangent space."""
    _, row, s, r, i, k = _matrix(table, tiles, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, s, BLOCK):
        j = start + tl.arange(0, BLOCK)
        symmetric = _read(_square(S, row, i, j, s)) + tl.trans(_read(_square(S, row, j, i, s)))
        X = _read(_band(row, ahead, "X", j, k, s, r, LAYOUT))
        total = tl.dot(symmetric, X, total, input_precision=PRECISION)
    here, inside = _band(row, ahead, "P", i, k, s, r, LAYOUT)
    P = tl.load(here, mask=inside, other=0.0) - 0.5 * total
    tl.store(here, P, mask=inside)
    if AHEAD:
        X = _read(_band(row, ahead, "X", i, k, s, r, LAYOUT))
        here, inside = _band(row, ahead, "X_bar", i, k, s, r, LAYOUT)
        tl.store(here, X + tl.load(rates) * P, mask=inside)
