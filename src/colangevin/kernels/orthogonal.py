r"""Orthogonality steps on the GPU: every matrix of a model in each launch, nothing decided on the host.

Matrices are worked on as :math:`X = Q^T \in R^{s \times r}`, :math:`X X^T = I`: the layout of a wide weight.
A step with momentum P and drift a is

1. S and A, the symmetric and the skew part of :math:`X P^T`;
2. with the projected momentum :math:`\hat P = P - S X` the target :math:`\bar X = X + a \hat P` has
   :math:`\bar X \bar X^T = I + a^2 \hat P \hat P^T` and :math:`X \bar X^T = I + a A`; since :math:`\hat P
   \hat P^T = P P^T - S^2 + A S - S A`, the projection itself is never computed;
3. quasi-Newton in Gram form for M, :math:`X' = \bar X - M X = X + a P - (M + a S) X`; where that does not
   converge, Newton-Schulz for :math:`Z = (\bar X \bar X^T)^{-1/2}`, :math:`X' = Z \bar X = (Z - a Z S) X +
   a Z P`; each matrix stops for itself;
4. :math:`E = X' X'^T - I`, and S anew for the momentum that arrived at X';
5. :math:`X'' = (I - \frac12 E + \frac38 E^2) X'`, which turns an error e into :math:`\frac5{16} e^3`, and
   the momentum's projection there.

A matrix for which all of this fails (a step thousands of times too long) stays where it was and loses its
momentum. The overdamped step has no momentum and enters at 3 with the step itself for aP.

Products use the matrix units at bfloat16's rate and float32's precision: a number is the sum of two bfloat16,
high and low, and of the four products of two such sums the smallest is left out, which is 2^-17 of the whole.
Workspaces are padded with zeros to whole tiles, so that nothing there needs a mask. Every kernel takes the
same table of matrices and a list of the tiles its programs work on.
"""

import triton
import triton.language as tl

__all__ = ["COLUMNS", "ENOUGH", "NEAR", "PROGRESS", "REACH"]

#: columns of the table: addresses of the configuration X and its momentum P; where the matrix begins in the
#: s x r workspaces, in the s x s ones and in the overdamped step's copy of the weights; s and r, and both as
#: padded
COLUMNS = 9
_COLUMNS = tl.constexpr(COLUMNS)
#: error at which an iteration may stop: the last correction makes 3e-13 of it
ENOUGH = 1e-4
_ENOUGH = tl.constexpr(ENOUGH)
#: factor by which every quasi-Newton iteration has to reduce the residual, as in Orthogonal
PROGRESS = 0.9
_PROGRESS = tl.constexpr(PROGRESS)
#: residual that a Newton-Schulz iteration takes down to 2e-5, in the last one that is needed
NEAR = 5e-3
_NEAR = tl.constexpr(NEAR)
#: largest error that the last correction is trusted with
REACH = 1e-2
_REACH = tl.constexpr(REACH)


@triton.jit
def _matrix(table, tiles, TALL: tl.constexpr, WIDE: tl.constexpr):
    """Number of the program's matrix, its row of the table, s, and the rows and columns of the tile."""
    program = tl.program_id(0)
    matrix = tl.load(tiles + 3 * program)
    i = tl.load(tiles + 3 * program + 1) * TALL + tl.arange(0, TALL)
    j = tl.load(tiles + 3 * program + 2) * WIDE + tl.arange(0, WIDE)
    row = table + matrix * _COLUMNS
    return matrix, row, tl.load(row + 5).to(tl.int32), i, j


# Workspaces are passed as pairs: where the matrix begins and the length of its rows. The compiler has to hear
# of their alignment here, where they are made: what is said of a function's argument is lost.


@triton.jit
def _band(workspace, row):
    """An s x r matrix in a workspace."""
    return workspace + tl.multiple_of(tl.load(row + 2), 128), tl.multiple_of(
        tl.load(row + 8).to(tl.int32), 128
    )


@triton.jit
def _square(workspace, row):
    """An s x s matrix in a workspace."""
    return workspace + tl.multiple_of(tl.load(row + 3), 64), tl.multiple_of(tl.load(row + 7).to(tl.int32), 64)


@triton.jit
def _at(matrix, i, j):
    """Addresses of rows i and columns j."""
    return matrix[0] + i[:, None] * matrix[1] + j[None, :]


@triton.jit
def _store_split(high, low, i, j, value):
    """Write a tile in two parts."""
    top = value.to(high[0].dtype.element_ty)
    tl.store(_at(high, i, j), top)
    tl.store(_at(low, i, j), (value - top.to(tl.float32)).to(low[0].dtype.element_ty))


@triton.jit
def _store_mirrored(matrix, i, j, value, mirrored):
    """Write a tile and, on the other side of the diagonal, the mirror image of another."""
    tl.store(_at(matrix, i, j), value)
    tl.store(_at(matrix, j, i), tl.trans(mirrored))


@triton.jit
def _in_memory(address, row, i, k, LAYOUT: tl.constexpr):
    """Addresses of rows i and columns k of an s x r matrix in a parameter or its state, and which exist."""
    base = address.to(tl.pointer_type(tl.float32))
    s, r = tl.load(row + 5).to(tl.int32), tl.load(row + 6).to(tl.int32)
    if LAYOUT == "aligned":  # rows begin at multiples of 64 bytes
        base = tl.multiple_of(base, 16)
        r = tl.multiple_of(r, 16)
    inside = (i[:, None] < s) & (k[None, :] < r)
    if LAYOUT == "tall":  # the weight is X^T
        return base + k[None, :] * s + i[:, None], inside
    return base + i[:, None] * r + k[None, :], inside


@triton.jit
def _identity(i, j, s):
    """Rows i and columns j of the s x s unit matrix; the padding is 0."""
    return tl.where((i[:, None] == j[None, :]) & (i[:, None] < s), 1.0, 0.0)


@triton.jit
def _largest(value):
    """Largest absolute entry of a tile; infinity when one is NaN."""
    size = tl.abs(value)
    size = tl.where(size == size, size, float("inf"))
    return tl.max(tl.max(size, 1), 0)


@triton.jit
def _split_dot(left_high, left_low, right_high, right_low, total):
    """Total plus the product of two matrices in two parts each."""
    total = tl.dot(left_low, right_high, total)
    total = tl.dot(left_high, right_low, total)
    return tl.dot(left_high, right_high, total)


@triton.jit
def _wide_product(
    high, low, band_high, band_low, i, k, TALL: tl.constexpr, WIDE: tl.constexpr, DEPTH: tl.constexpr
):
    """Tile (i, k) of the product of an s x s and an s x r matrix, each in two parts."""
    total = tl.zeros((TALL, WIDE), tl.float32)
    for start in range(0, high[1], DEPTH):
        j = start + tl.arange(0, DEPTH)
        total = _split_dot(
            tl.load(_at(high, i, j)),
            tl.load(_at(low, i, j)),
            tl.load(_at(band_high, j, k)),
            tl.load(_at(band_low, j, k)),
            total,
        )
    return total


@triton.jit
def _square_product(left, right, i, j, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Tile (i, j) of L R^T for two s x s matrices."""
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, left[1], BLOCK):
        k = start + tl.arange(0, BLOCK)
        columns = tl.trans(tl.load(_at(right, j, k)))
        total = tl.dot(tl.load(_at(left, i, k)), columns, total, input_precision=PRECISION)
    return total


@triton.jit
def split(
    table,
    tiles,  # of s x r matrices
    ahead,  # the overdamped step's X_bar, laid out as the weights are
    X_high,  # s x r workspaces
    X_low,
    P_high,
    P_low,
    OVERDAMPED: tl.constexpr,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
):
    """X and P, or X_bar - X for it, in two parts."""
    _, row, _, i, k = _matrix(table, tiles, TALL, WIDE)
    here, inside = _in_memory(tl.load(row), row, i, k, LAYOUT)
    X = tl.load(here, mask=inside, other=0.0)
    _store_split(_band(X_high, row), _band(X_low, row), i, k, X)
    if OVERDAMPED:
        here, inside = _in_memory(ahead + tl.load(row + 4), row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0) - X
    else:
        here, inside = _in_memory(tl.load(row + 1), row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0)
    _store_split(_band(P_high, row), _band(P_low, row), i, k, P)


@triton.jit
def inner(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    X_high,
    X_low,
    P_high,
    P_low,
    symmetric,  # s x s workspace: S
    skew,  # s x s workspace: A
    S_high,
    S_low,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """S + A = X P^T, the symmetric and the skew part."""
    _, row, _, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    Xh, Xl, Ph, Pl = _band(X_high, row), _band(X_low, row), _band(P_high, row), _band(P_low, row)
    here = tl.zeros((BLOCK, BLOCK), tl.float32)  # X P^T at (i, j)
    there = tl.zeros((BLOCK, BLOCK), tl.float32)  # P X^T at (i, j)
    for start in range(0, Xh[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        left_high, left_low = tl.load(_at(Xh, i, k)), tl.load(_at(Xl, i, k))
        right_high, right_low = tl.load(_at(Ph, j, k)), tl.load(_at(Pl, j, k))
        here = _split_dot(left_high, left_low, tl.trans(right_high), tl.trans(right_low), here)
        left_high, left_low = tl.load(_at(Ph, i, k)), tl.load(_at(Pl, i, k))
        right_high, right_low = tl.load(_at(Xh, j, k)), tl.load(_at(Xl, j, k))
        there = _split_dot(left_high, left_low, tl.trans(right_high), tl.trans(right_low), there)
    S = 0.5 * (here + there)
    _store_mirrored(_square(symmetric, row), i, j, S, S)
    A = 0.5 * (here - there)
    _store_mirrored(_square(skew, row), i, j, A, -A)
    _store_split(_square(S_high, row), _square(S_low, row), i, j, S)
    _store_split(_square(S_high, row), _square(S_low, row), j, i, tl.trans(S))


@triton.jit
def tangent(
    table,
    tiles,  # of s x r matrices
    X_high,
    X_low,
    S_high,
    S_low,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """P <- P - S X, the projection onto the cotangent space."""
    _, row, _, i, k = _matrix(table, tiles, TALL, WIDE)
    S = _wide_product(
        _square(S_high, row),
        _square(S_low, row),
        _band(X_high, row),
        _band(X_low, row),
        i,
        k,
        TALL,
        WIDE,
        DEPTH,
    )
    here, inside = _in_memory(tl.load(row + 1), row, i, k, LAYOUT)
    tl.store(here, tl.load(here, mask=inside, other=0.0) - S, mask=inside)


@triton.jit
def gram(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    P_high,
    P_low,
    symmetric,  # S
    skew,  # A
    rates,  # float32: drift a first
    error,  # s x s workspace: E = X_bar X_bar^T - I
    slope,  # s x s workspace: B = X X_bar^T
    M,  # s x s workspace: E/2, where the quasi-Newton iteration begins
    size,  # float32 (matrices,): the largest entry of E
    bound,  # float32 (matrices,): no eigenvalue of X_bar X_bar^T is larger
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,  # whether there is a row of rates for each matrix
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
    SHORT: tl.constexpr,  # the same of a sum over s
):
    """E = a^2 (P P^T - S^2 + AS - SA), B = I + a A for a momentum P; 2 S + P P^T, I + S + A for a step P."""
    matrix, row, s, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    Ph, Pl = _band(P_high, row), _band(P_low, row)
    E = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, Ph[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        right_high, right_low = tl.trans(tl.load(_at(Ph, j, k))), tl.trans(tl.load(_at(Pl, j, k)))
        E = _split_dot(tl.load(_at(Ph, i, k)), tl.load(_at(Pl, i, k)), right_high, right_low, E)
    identity = _identity(i, j, s)
    S_at, A_at = _square(symmetric, row), _square(skew, row)
    B = tl.load(_at(A_at, i, j))
    B_mirrored = -B
    if OVERDAMPED:
        S = tl.load(_at(S_at, i, j))
        E = E + 2.0 * S
        B += S
        B_mirrored += S
    else:
        for start in range(0, S_at[1], SHORT):
            k = start + tl.arange(0, SHORT)
            S, A = tl.load(_at(S_at, i, k)), tl.load(_at(A_at, i, k))
            E = tl.dot(A - S, tl.load(_at(S_at, k, j)), E, input_precision="tf32x3")
            E = tl.dot(-S, tl.load(_at(A_at, k, j)), E, input_precision="tf32x3")
        a = tl.load(rates + matrix * 4 * VARIES)
        E = a * a * E
        B = a * B
        B_mirrored = a * B_mirrored
    corner = _square(slope, row)
    _store_mirrored(corner, i, j, identity + B, identity + B_mirrored)
    _store_mirrored(_square(error, row), i, j, E, E)
    _store_mirrored(_square(M, row), i, j, 0.5 * E, 0.5 * E)
    tl.atomic_max(size + matrix, _largest(E))
    whole = tl.abs(identity + E)
    sums = tl.maximum(tl.max(tl.sum(whole, 1), 0), tl.max(tl.sum(whole, 0), 0))
    tl.atomic_max(bound + matrix, tl.where(sums == sums, sums, float("inf")) * (corner[1] // BLOCK))


@triton.jit
def quasi_newton(
    table,
    tiles,  # on and above the diagonal
    error,  # E
    slope,  # B
    old,  # M
    new,  # M + (E - MB - (MB)^T + M^2)/2
    size_earlier,  # float32 (matrices,): largest entry of the residual two iterations before
    size_before,  # of the one before
    size,  # of this one; infinite when the iteration does not get on
    BLOCK: tl.constexpr,
):
    """One quasi-Newton iteration; with Y = M (M/2 - B) the residual is E + Y + Y^T."""
    matrix, row, _, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    earlier, before = tl.load(size_earlier + matrix), tl.load(size_before + matrix)
    M_at, B_at = _square(old, row), _square(slope, row)
    M = tl.load(_at(M_at, i, j))
    if before <= _ENOUGH:
        tl.atomic_max(size + matrix, before)
    elif (before > _PROGRESS * earlier) | (before >= 1e3):
        tl.atomic_max(size + matrix, before + float("inf"))
    else:
        above = tl.zeros((BLOCK, BLOCK), tl.float32)  # Y at (i, j)
        below = tl.zeros((BLOCK, BLOCK), tl.float32)  # Y at (j, i)
        for start in range(0, M_at[1], BLOCK):
            k = start + tl.arange(0, BLOCK)
            right = 0.5 * tl.load(_at(M_at, k, j)) - tl.load(_at(B_at, k, j))
            above = tl.dot(tl.load(_at(M_at, i, k)), right, above, input_precision="tf32x3")
            right = 0.5 * tl.load(_at(M_at, k, i)) - tl.load(_at(B_at, k, i))
            below = tl.dot(tl.load(_at(M_at, j, k)), right, below, input_precision="tf32x3")
        residual = tl.load(_at(_square(error, row), i, j)) + above + tl.trans(below)
        M = M + 0.5 * residual
        tl.atomic_max(size + matrix, _largest(residual))
    if not (earlier <= _ENOUGH):  # else both workspaces have it
        _store_mirrored(_square(new, row), i, j, M, M)


@triton.jit
def polar_start(
    table,
    tiles,
    error,
    bound,
    size,  # of the quasi-Newton iteration's last residual
    Y,
    Z,
    polar_size,  # float32 (matrices,): 1 for matrices that need the polar factor, else 0
    BLOCK: tl.constexpr,
):
    """Y = X_bar X_bar^T / bound and Z = I for the matrices on which quasi-Newton failed."""
    matrix, row, s, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    if not (tl.load(size + matrix) <= _ENOUGH):
        identity = _identity(i, j, s)
        tl.store(
            _at(_square(Y, row), i, j),
            (tl.load(_at(_square(error, row), i, j)) + identity) / tl.load(bound + matrix),
        )
        tl.store(_at(_square(Z, row), i, j), identity)
        tl.atomic_max(polar_size + matrix, 1.0)


@triton.jit
def polar_factor(table, tiles, Y, Z, T, size_before, size, BLOCK: tl.constexpr):
    """T = (3 I - Z Y)/2 of a Newton-Schulz iteration, in which every matrix is symmetric."""
    matrix, row, s, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    before = tl.load(size_before + matrix)
    if before > _NEAR:
        identity = _identity(i, j, s)
        ZY = _square_product(_square(Z, row), _square(Y, row), i, j, "tf32x3", BLOCK)
        tl.store(_at(_square(T, row), i, j), 1.5 * identity - 0.5 * ZY)
        tl.atomic_max(size + matrix, _largest(identity - ZY))
    else:
        tl.atomic_max(size + matrix, before)


@triton.jit
def polar_step(table, tiles, Y, Z, T, Y_new, Z_new, size_before, BLOCK: tl.constexpr):
    """Y <- Y T and Z <- T Z of a Newton-Schulz iteration, or copies once it has converged."""
    matrix, row, _, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    before = tl.load(size_before + matrix)
    Y_at, Z_at, T_at = _square(Y, row), _square(Z, row), _square(T, row)
    here, there = _at(_square(Y_new, row), i, j), _at(_square(Z_new, row), i, j)
    if before > _NEAR:
        tl.store(here, _square_product(Y_at, T_at, i, j, "tf32x3", BLOCK))
        tl.store(there, _square_product(T_at, Z_at, i, j, "tf32x3", BLOCK))
    elif before > 0:
        tl.store(here, tl.load(_at(Y_at, i, j)))
        tl.store(there, tl.load(_at(Z_at, i, j)))


@triton.jit
def choose(
    table,
    tiles,
    M,
    Z,
    bound,
    size,  # of the quasi-Newton iteration's last residual
    symmetric,  # S of P at X
    skew,  # A of P at X
    rates,  # float32: drift a first
    arrived,  # s x s workspace: that of the momentum that arrives at X'
    U_high,  # s x s workspaces
    U_low,
    Z_high,  # where quasi-Newton failed
    Z_low,
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What X is multiplied by, in two parts: U = M + a S where quasi-Newton converged, else Z - a Z S.

    There Z comes in two parts too. The skew part A stays, or is (ZA + AZ)/2. A step has S in its M and Z.
    """
    matrix, row, _, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    Z_at, S_at, A_at = _square(Z, row), _square(symmetric, row), _square(skew, row)
    a = tl.load(rates + matrix * 4 * VARIES)
    if tl.load(size + matrix) <= _ENOUGH:
        U = tl.load(_at(_square(M, row), i, j))
        if not OVERDAMPED:
            U += a * tl.load(_at(S_at, i, j))
        A = tl.load(_at(A_at, i, j))
    else:
        scale = tl.sqrt(tl.load(bound + matrix))
        U = tl.load(_at(Z_at, i, j)) / scale
        _store_split(_square(Z_high, row), _square(Z_low, row), i, j, U)
        if not OVERDAMPED:
            U -= a * _square_product(Z_at, S_at, i, j, "tf32x3", BLOCK) / scale
        A = _square_product(A_at, Z_at, i, j, "tf32", BLOCK)
        A -= _square_product(Z_at, A_at, i, j, "tf32", BLOCK)
        A = 0.5 * A / scale
    _store_split(_square(U_high, row), _square(U_low, row), i, j, U)
    tl.store(_at(_square(arrived, row), i, j), A)


@triton.jit
def land(
    table,
    tiles,  # of s x r matrices
    ahead,  # the overdamped step's X_bar
    X_high,
    X_low,
    P_high,
    P_low,
    U_high,
    U_low,
    Z_high,
    Z_low,
    size,  # of the quasi-Newton iteration's last residual
    rates,  # float32: drift a first
    landed,  # s x r workspaces: X', in two parts too, and the momentum that arrives there
    landed_high,
    landed_low,
    arrived_high,
    arrived_low,
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """X' = X + aP - UX and P - UX/a, or X' = UX + aZP and (X' - X)/a."""
    matrix, row, _, i, k = _matrix(table, tiles, TALL, WIDE)
    Uh, Ul, Xh, Xl = _square(U_high, row), _square(U_low, row), _band(X_high, row), _band(X_low, row)
    UX = _wide_product(Uh, Ul, Xh, Xl, i, k, TALL, WIDE, DEPTH)
    here, inside = _in_memory(tl.load(row), row, i, k, LAYOUT)
    X = tl.load(here, mask=inside, other=0.0)
    a = 1.0
    if OVERDAMPED:
        here, inside = _in_memory(ahead + tl.load(row + 4), row, i, k, LAYOUT)
        ahead_of_X = tl.load(here, mask=inside, other=0.0)
        P = ahead_of_X - X
    else:
        a = tl.load(rates + matrix * 4 * VARIES)
        here, inside = _in_memory(tl.load(row + 1), row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0)
        ahead_of_X = X + a * P
    rate = tl.where(a > 0, 1.0 / tl.where(a > 0, a, 1.0), 0.0)
    if tl.load(size + matrix) <= _ENOUGH:
        X_new = ahead_of_X - UX
        P = P - rate * UX
    else:
        Zh, Zl, Ph, Pl = _square(Z_high, row), _square(Z_low, row), _band(P_high, row), _band(P_low, row)
        X_new = UX + a * _wide_product(Zh, Zl, Ph, Pl, i, k, TALL, WIDE, DEPTH)
        P = rate * (X_new - X)
    tl.store(_at(_band(landed, row), i, k), X_new)
    _store_split(_band(landed_high, row), _band(landed_low, row), i, k, X_new)
    if not OVERDAMPED:
        tl.store(here, P, mask=inside)
        _store_split(_band(arrived_high, row), _band(arrived_low, row), i, k, P)


@triton.jit
def examine(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    landed,  # X'
    error,  # s x s workspace: E = X' X'^T - I
    size,  # float32 (matrices,): largest entry of E
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """How far X' is from the manifold, in float32: two parts would leave 2^-17 of the diagonal in doubt."""
    matrix, row, s, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    X = _band(landed, row)
    E = -_identity(i, j, s)
    for start in range(0, X[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        # the matrix units cut off what a long sum cannot hold, always towards 0: they add little at a time
        part = tl.zeros((BLOCK, BLOCK), tl.float32)
        columns = tl.trans(tl.load(_at(X, j, k)))
        E += tl.dot(tl.load(_at(X, i, k)), columns, part, input_precision="tf32x3")
    _store_mirrored(_square(error, row), i, j, E, E)
    tl.atomic_max(size + matrix, _largest(E))


@triton.jit
def normal_part(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    landed_high,
    landed_low,
    arrived_high,
    arrived_low,
    symmetric,  # s x s workspace: S
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """S, the symmetric part of X' P^T: what of the momentum that arrives points off the manifold."""
    _, row, _, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    Xh, Xl = _band(landed_high, row), _band(landed_low, row)
    Ph, Pl = _band(arrived_high, row), _band(arrived_low, row)
    S = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, Xh[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        part = tl.zeros((BLOCK, BLOCK), tl.float32)
        right_high, right_low = tl.trans(tl.load(_at(Xh, j, k))), tl.trans(tl.load(_at(Xl, j, k)))
        part = _split_dot(tl.load(_at(Ph, i, k)), tl.load(_at(Pl, i, k)), right_high, right_low, part)
        right_high, right_low = tl.trans(tl.load(_at(Ph, j, k))), tl.trans(tl.load(_at(Pl, j, k)))
        S += _split_dot(tl.load(_at(Xh, i, k)), tl.load(_at(Xl, i, k)), right_high, right_low, part)
    _store_mirrored(_square(symmetric, row), i, j, 0.5 * S, 0.5 * S)


@triton.jit
def correction(
    table,
    tiles,
    error,  # E
    symmetric,  # S
    skew,  # A
    C_high,  # s x s workspaces: -E/2 + 3 E^2/8, the expansion of (I + E)^(-1/2) - I
    C_low,
    T_high,  # the symmetric part of (I + C) (S + A), times I + C, to first order
    T_low,
    MOMENTUM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What takes X' onto the manifold and P into the cotangent space there."""
    _, row, _, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    E_at, S_at, A_at = _square(error, row), _square(symmetric, row), _square(skew, row)
    part: tl.constexpr = C_high.dtype.element_ty  # E is so small that its high part is enough
    EE = tl.zeros((BLOCK, BLOCK), tl.float32)
    KE = tl.zeros((BLOCK, BLOCK), tl.float32)  # E (S + A) + (S - A) E + 2 S E
    for start in range(0, E_at[1], BLOCK):
        k = start + tl.arange(0, BLOCK)
        left, right = tl.load(_at(E_at, i, k)).to(part), tl.load(_at(E_at, k, j)).to(part)
        EE = tl.dot(left, right, EE)
        if MOMENTUM:
            K = tl.load(_at(S_at, k, j)) + tl.load(_at(A_at, k, j))
            KE = tl.dot(left, K.to(part), KE)
            K = 3.0 * tl.load(_at(S_at, i, k)) - tl.load(_at(A_at, i, k))
            KE = tl.dot(K.to(part), right, KE)
    E = tl.load(_at(E_at, i, j))
    _store_split(_square(C_high, row), _square(C_low, row), i, j, 0.375 * EE - 0.5 * E)
    if MOMENTUM:
        T = tl.load(_at(S_at, i, j)) - 0.25 * KE
        _store_split(_square(T_high, row), _square(T_low, row), i, j, T)


@triton.jit
def correct(
    table,
    tiles,  # of s x r matrices
    landed,  # X'
    landed_high,
    landed_low,
    C_high,
    C_low,
    T_high,
    T_low,
    size,  # largest entry of X' X'^T - I
    MOMENTUM: tl.constexpr,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """X = X' + C X' and P <- P - T X'; where X' is too far off for that, X stays and P is 0."""
    matrix, row, _, i, k = _matrix(table, tiles, TALL, WIDE)
    Ch, Cl, Th, Tl = _square(C_high, row), _square(C_low, row), _square(T_high, row), _square(T_low, row)
    Xh, Xl = _band(landed_high, row), _band(landed_low, row)
    CX = tl.zeros((TALL, WIDE), tl.float32)
    TX = tl.zeros((TALL, WIDE), tl.float32)
    for start in range(0, Ch[1], DEPTH):
        j = start + tl.arange(0, DEPTH)
        high = tl.load(_at(Xh, j, k))
        CX = tl.dot(tl.load(_at(Cl, i, j)), high, CX)
        CX = tl.dot(tl.load(_at(Ch, i, j)), high, CX)
        if MOMENTUM:
            TX = _split_dot(tl.load(_at(Th, i, j)), tl.load(_at(Tl, i, j)), high, tl.load(_at(Xl, j, k)), TX)
    well = tl.load(size + matrix) <= _REACH
    here, inside = _in_memory(tl.load(row), row, i, k, LAYOUT)
    if well:
        tl.store(here, tl.load(_at(_band(landed, row), i, k)) + CX, mask=inside)
    if MOMENTUM:
        here, inside = _in_memory(tl.load(row + 1), row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0) - TX
        tl.store(here, tl.where(well, P, 0.0), mask=inside)
