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
def _matrix(table, tiles, LAYOUT: tl.constexpr, BLOCK: tl.constexpr):
    """The program's matrix: number, row of the table, s, r, strides; and the rows and columns of its tile."""
    program = tl.program_id(0)
    matrix = tl.load(tiles + 3 * program)
    i = tl.load(tiles + 3 * program + 1) * BLOCK + tl.arange(0, BLOCK)
    j = tl.load(tiles + 3 * program + 2) * BLOCK + tl.arange(0, BLOCK)
    row = table + matrix * _COLUMNS
    s, r = tl.load(row + 4).to(tl.int32), tl.load(row + 5).to(tl.int32)
    if LAYOUT == "aligned":  # rows begin at multiples of 64 bytes; the compiler has to hear it here
        r = tl.multiple_of(r, 16)
    return matrix, row, s, r, i, j


@triton.jit
def _base(row, workspace, WHICH: tl.constexpr, LAYOUT: tl.constexpr):
    """Where an s x r matrix begins."""
    if WHICH == "X":
        base = tl.load(row).to(tl.pointer_type(tl.float32))
    elif WHICH == "P":
        base = tl.load(row + 1).to(tl.pointer_type(tl.float32))
    else:
        base = workspace + tl.load(row + 2)
    if LAYOUT == "aligned":
        base = tl.multiple_of(base, 16)
    return base


@triton.jit
def _band(base, i, k, s, r, LAYOUT: tl.constexpr):
    """Addresses of rows i and columns k of an s x r matrix, and which of them exist."""
    inside = (i[:, None] < s) & (k[None, :] < r)
    if LAYOUT == "tall":  # the weight is X^T
        return base + k[None, :] * s + i[:, None], inside
    return base + i[:, None] * r + k[None, :], inside


@triton.jit
def _corner(workspace, row):
    """Where an s x s matrix begins, and the length of its rows."""
    base = tl.multiple_of(workspace + tl.load(row + 3), 16)
    return base, tl.multiple_of(tl.load(row + 6).to(tl.int32), 16)


@triton.jit
def _square(corner, i, j, s):
    """Addresses of rows i and columns j of an s x s matrix, and which of them exist."""
    inside = (i[:, None] < s) & (j[None, :] < s)
    return corner[0] + i[:, None] * corner[1] + j[None, :], inside


@triton.jit
def _read(where):
    return tl.load(where[0], mask=where[1], other=0.0)


@triton.jit
def _read_square(corner, i, j, s):
    """Rows i and columns j of an s x s matrix, 0 outside; the padding of its rows is 0 and may be read."""
    inside = (i[:, None] < s) & (j[None, :] < corner[1])
    return tl.load(corner[0] + i[:, None] * corner[1] + j[None, :], mask=inside, other=0.0)


@triton.jit
def _square_product(left, right, i, j, s, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Tile (i, j) of the product of two s x s matrices."""
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, s, BLOCK):
        k = start + tl.arange(0, BLOCK)
        total = tl.dot(
            _read_square(left, i, k, s),
            _read_square(right, k, j, s),
            total,
            input_precision=PRECISION,
        )
    return total


@triton.jit
def _long_product(
    left,
    right,
    i,
    j,
    s,
    r,
    LAYOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Tile (i, j) of L R^T for two s x r matrices."""
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, r, DEPTH):
        k = start + tl.arange(0, DEPTH)
        rows = _read(_band(left, i, k, s, r, LAYOUT))
        columns = _read(_band(right, j, k, s, r, LAYOUT))
        total = tl.dot(rows, tl.trans(columns), total, input_precision=PRECISION)
    return total


@triton.jit
def _wide_product(
    square, band, i, k, s, r, LAYOUT: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr
):
    """Tile (i, k) of the product of an s x s and an s x r matrix."""
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, s, BLOCK):
        j = start + tl.arange(0, BLOCK)
        total = tl.dot(
            _read_square(square, i, j, s),
            _read(_band(band, j, k, s, r, LAYOUT)),
            total,
            input_precision=PRECISION,
        )
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
    RIGHT: tl.constexpr,  # "P" or "X_bar"
    LAYOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """X R^T."""
    _, row, s, r, i, j = _matrix(table, tiles, LAYOUT, BLOCK)
    left, right = _base(row, ahead, "X", LAYOUT), _base(row, ahead, RIGHT, LAYOUT)
    total = _long_product(left, right, i, j, s, r, LAYOUT, PRECISION, BLOCK, DEPTH)
    here, inside = _square(_corner(out, row), i, j, s)
    tl.store(here, total, mask=inside)


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
    matrix, row, s, r, i, j = _matrix(table, tiles, LAYOUT, BLOCK)
    base = _base(row, matrices, "workspace", LAYOUT)
    total = _long_product(base, base, i, j, s, r, LAYOUT, PRECISION, BLOCK, DEPTH)
    value = total - tl.where(i[:, None] == j[None, :], 1.0, 0.0)
    _store_mirrored(_corner(error, row), i, j, s, value)
    _store_mirrored(_corner(half, row), i, j, s, 0.5 * value)
    inside = (i[:, None] < s) & (j[None, :] < s)
    tl.atomic_max(size + matrix, _largest(value, inside))
    twice = tl.where(tl.min(i, 0) == tl.min(j, 0), 1.0, 2.0)
    tl.atomic_add(squares + matrix, twice * tl.sum(tl.sum(tl.where(inside, total * total, 0.0), 1), 0))


@triton.jit
def _store_mirrored(corner, i, j, s, value):
    """Write a tile and its mirror image."""
    here, inside = _square(corner, i, j, s)
    tl.store(here, value, mask=inside)
    here, inside = _square(corner, j, i, s)
    tl.store(here, tl.trans(value), mask=inside)


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
    matrix, row, s, _, i, j = _matrix(table, tiles, "square", BLOCK)
    before = tl.load(size_before + matrix)
    M_at, B_at = _corner(old, row), _corner(slope, row)
    here, inside = _square(M_at, i, j, s)
    M = tl.load(here, mask=inside, other=0.0)
    if (before > _ENOUGH) & (before < 1e3):
        above = tl.zeros((BLOCK, BLOCK), tl.float32)  # Y at (i, j)
        below = tl.zeros((BLOCK, BLOCK), tl.float32)  # Y at (j, i)
        for start in range(0, s, BLOCK):
            k = start + tl.arange(0, BLOCK)
            right = 0.5 * _read_square(M_at, k, j, s) - _read_square(B_at, k, j, s)
            above = tl.dot(_read_square(M_at, i, k, s), right, above, input_precision=PRECISION)
            right = 0.5 * _read_square(M_at, k, i, s) - _read_square(B_at, k, i, s)
            below = tl.dot(_read_square(M_at, j, k, s), right, below, input_precision=PRECISION)
        residual = _read_square(_corner(error, row), i, j, s) + above + tl.trans(below)
        M = M + 0.5 * residual
        tl.atomic_max(size + matrix, _largest(residual, inside))
    else:
        tl.atomic_max(size + matrix, before)
    _store_mirrored(_corner(new, row), i, j, s, M)


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
    matrix, row, s, _, i, j = _matrix(table, tiles, "square", BLOCK)
    if not (tl.load(size + matrix) <= _ENOUGH):
        identity = tl.where(i[:, None] == j[None, :], 1.0, 0.0)
        scale = tl.sqrt(tl.load(squares + matrix))
        A = _read_square(_corner(error, row), i, j, s) + identity
        here, inside = _square(_corner(Y, row), i, j, s)
        tl.store(here, A / scale, mask=inside)
        here, inside = _square(_corner(Z, row), i, j, s)
        tl.store(here, identity, mask=inside)
        tl.atomic_max(polar_size + matrix, 1.0)


@triton.jit
def polar_factor(table, tiles, Y, Z, T, size_before, size, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """T = (3 I - Z Y)/2 of a Newton-Schulz iteration."""
    matrix, row, s, _, i, j = _matrix(table, tiles, "square", BLOCK)
    before = tl.load(size_before + matrix)
    if before > _ENOUGH:
        identity = tl.where(i[:, None] == j[None, :], 1.0, 0.0)
        ZY = _square_product(_corner(Z, row), _corner(Y, row), i, j, s, PRECISION, BLOCK)
        here, inside = _square(_corner(T, row), i, j, s)
        tl.store(here, 1.5 * identity - 0.5 * ZY, mask=inside)
        tl.atomic_max(size + matrix, _largest(identity - ZY, inside))
    else:
        tl.atomic_max(size + matrix, before)


@triton.jit
def polar_step(
    table, tiles, Y, Z, T, Y_new, Z_new, size_before, PRECISION: tl.constexpr, BLOCK: tl.constexpr
):
    """Y <- Y T and Z <- T Z of a Newton-Schulz iteration, or copies once it has converged."""
    matrix, row, s, _, i, j = _matrix(table, tiles, "square", BLOCK)
    before = tl.load(size_before + matrix)
    Y_at, Z_at, T_at = _corner(Y, row), _corner(Z, row), _corner(T, row)
    here, inside = _square(_corner(Y_new, row), i, j, s)
    there, _ = _square(_corner(Z_new, row), i, j, s)
    if before > _ENOUGH:
        tl.store(here, _square_product(Y_at, T_at, i, j, s, PRECISION, BLOCK), mask=inside)
        tl.store(there, _square_product(T_at, Z_at, i, j, s, PRECISION, BLOCK), mask=inside)
    elif before > 0:
        tl.store(here, _read_square(Y_at, i, j, s), mask=inside)
        tl.store(there, _read_square(Z_at, i, j, s), mask=inside)


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
    matrix, row, s, r, i, k = _matrix(table, tiles, LAYOUT, BLOCK)
    oblique = tl.load(size + matrix) <= _ENOUGH
    X_at, ahead_at = _base(row, ahead, "X", LAYOUT), _base(row, ahead, "X_bar", LAYOUT)
    if oblique:
        total = _wide_product(_corner(M, row), X_at, i, k, s, r, LAYOUT, PRECISION, BLOCK)
        X_new = _read(_band(ahead_at, i, k, s, r, LAYOUT)) - total
    else:
        total = _wide_product(_corner(Z, row), ahead_at, i, k, s, r, LAYOUT, PRECISION, BLOCK)
        X_new = total / tl.sqrt(tl.sqrt(tl.load(squares + matrix)))
    here, inside = _band(_base(row, landed, "X'", LAYOUT), i, k, s, r, LAYOUT)
    tl.store(here, X_new, mask=inside)
    if MOMENTUM:
        a = tl.load(rates)
        step = tl.where(a > 0, 1.0 / tl.where(a > 0, a, 1.0), 0.0)
        X = _read(_band(X_at, i, k, s, r, LAYOUT))
        here, inside = _band(_base(row, ahead, "P", LAYOUT), i, k, s, r, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0)
        tl.store(here, tl.where(oblique, P - step * total, step * (X_new - X)), mask=inside)


@triton.jit
def correction(table, tiles, error, out, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """-E/2 + 3 E^2/8, the second-order expansion of (I + E)^(-1/2) - I."""
    _, row, s, _, i, j = _matrix(table, tiles, "square", BLOCK)
    E = _corner(error, row)
    square = _square_product(E, E, i, j, s, PRECISION, BLOCK)
    here, inside = _square(_corner(out, row), i, j, s)
    tl.store(here, 0.375 * square - 0.5 * _read_square(E, i, j, s), mask=inside)


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
    matrix, row, s, r, i, k = _matrix(table, tiles, LAYOUT, BLOCK)
    if tl.load(size + matrix) <= _REACH:
        landed_at = _base(row, landed, "X'", LAYOUT)
        total = _wide_product(_corner(C, row), landed_at, i, k, s, r, LAYOUT, PRECISION, BLOCK)
        here, inside = _band(_base(row, landed, "X", LAYOUT), i, k, s, r, LAYOUT)
        tl.store(here, _read(_band(landed_at, i, k, s, r, LAYOUT)) + total, mask=inside)
    elif MOMENTUM:
        here, inside = _band(_base(row, landed, "P", LAYOUT), i, k, s, r, LAYOUT)
        tl.store(here, tl.zeros((BLOCK, BLOCK), tl.float32), mask=inside)


@triton.jit
def symmetrise(table, tiles, S, BLOCK: tl.constexpr):
    """S <- (S + S^T)/2."""
    _, row, s, _, i, j = _matrix(table, tiles, "square", BLOCK)
    corner = _corner(S, row)
    value = _read_square(corner, i, j, s) + tl.trans(_read_square(corner, j, i, s))
    _store_mirrored(corner, i, j, s, 0.5 * value)


@triton.jit
def tangent(
    table,
    tiles,  # of s x r matrices
    ahead,  # X_bar
    S,  # symmetric part of X P^T
    rates,
    AHEAD: tl.constexpr,  # whether to write X_bar = X + a P too
    LAYOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """P <- P - S X, the projection onto the cotangent space."""
    _, row, s, r, i, k = _matrix(table, tiles, LAYOUT, BLOCK)
    X_at = _base(row, ahead, "X", LAYOUT)
    total = _wide_product(_corner(S, row), X_at, i, k, s, r, LAYOUT, PRECISION, BLOCK)
    here, inside = _band(_base(row, ahead, "P", LAYOUT), i, k, s, r, LAYOUT)
    P = tl.load(here, mask=inside, other=0.0) - total
    tl.store(here, P, mask=inside)
    if AHEAD:
        X = _read(_band(X_at, i, k, s, r, LAYOUT))
        here, inside = _band(_base(row, ahead, "X_bar", LAYOUT), i, k, s, r, LAYOUT)
        tl.store(here, X + tl.load(rates) * P, mask=inside)
