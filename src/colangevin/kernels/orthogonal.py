r"""Orthogonality steps on the GPU: every matrix of a model in each launch, nothing decided on the host.

Matrices are worked on as :math:`X = Q^T \in R^{s \times r}`, :math:`X X^T = I`: the layout of a wide weight.
A step with momentum P and drift a is

1. :math:`K = X P^T`, with its symmetric part S and its skew part A, and :math:`G = P P^T`;
2. with the projected momentum :math:`\hat P = P - S X` the target :math:`\bar X = X + a \hat P` has
   :math:`\bar X \bar X^T = I + a^2 \hat P \hat P^T` and :math:`X \bar X^T = I + a A`; since :math:`\hat P
   \hat P^T = G + S D + (S D)^T` with :math:`D = S/2 - K`, the projection itself is never computed;
3. quasi-Newton in Gram form for M, :math:`X' = \bar X - M X = X + a P - U X`, :math:`U = M + a S`; where
   that does not converge, Newton-Schulz for :math:`Z = (\bar X \bar X^T)^{-1/2}`, :math:`X' = Z \bar X =
   (Z - a Z S) X + a Z P`; each matrix stops for itself;
4. :math:`E = X' X'^T - I`, and S' of the momentum that arrives at X', :math:`P - U X / a`: in Gram form too,
   :math:`S' = S + a G - U/a + W + W^T` with :math:`W = U (U/2a - K)`;
5. :math:`X'' = (I - \frac12 E + \frac38 E^2) X'`, which turns an error e into :math:`\frac5{16} e^3`, and
   the momentum's projection there.

Only K, G, U X, E and what 5 multiplies with X' are products of long matrices; all others are s x s.

A matrix for which all of this fails (a step thousands of times too long) stays where it was and loses its
momentum. The overdamped step has no momentum and enters at 3 with the step itself for aP.

Products use the matrix units at the rate of 16-bit numbers and at float32's precision: a number is the sum of
two bfloat16, high and low, and of the four products of two such sums the smallest is left out, which is 2^-17
of the whole. X', of which no entry is larger than 1, is the sum of two float16, times a number, which is as
good as float32; so is what it is multiplied by.

Workspaces are padded with zeros to whole tiles, so that nothing there needs a mask. Every kernel takes the
same table of matrices and a list of the tiles its programs work on.
"""

import triton
import triton.language as tl

__all__ = [
    "arrival",
    "choose",
    "correct",
    "correction",
    "count",
    "examine",
    "gram",
    "halves",
    "land",
    "polar",
    "products",
    "quasi_newton",
    "quasi_newton_to_the_end",
    "split",
    "tangent",
]

# columns of the table: addresses of the configuration X and its momentum P; where the matrix begins in the
# s x r workspaces, in the s x s ones and in the overdamped step's copy of the weights; s and r, and both as
# padded
_COLUMNS = tl.constexpr(9)
# error at which an iteration may stop: the last correction makes 3e-13 of it
_ENOUGH = tl.constexpr(1e-4)
# factor by which every quasi-Newton iteration has to reduce the residual, as in Orthogonal
_PROGRESS = tl.constexpr(0.9)
# residual that a Newton-Schulz iteration takes down to 2e-5, in the last one that is needed
_NEAR = tl.constexpr(5e-3)
# largest error that the last correction is trusted with
_REACH = tl.constexpr(1e-2)
# what X' and C are multiplied by as float16, and what the entries of T come up to
_X_UNIT = tl.constexpr(4096.0)
_C_UNIT = tl.constexpr(65536.0)
_T_LARGEST = tl.constexpr(1024.0)


@triton.jit
def _tile(table, tiles, number, TALL: tl.constexpr, WIDE: tl.constexpr):
    """Number of a tile's matrix, its row of the table, s, and the rows and columns of the tile."""
    matrix = tl.load(tiles + 3 * number)
    i = tl.load(tiles + 3 * number + 1) * TALL + tl.arange(0, TALL)
    j = tl.load(tiles + 3 * number + 2) * WIDE + tl.arange(0, WIDE)
    row = table + matrix * _COLUMNS
    return matrix, row, tl.load(row + 5).to(tl.int32), i, j


@triton.jit
def _matrix(table, tiles, TALL: tl.constexpr, WIDE: tl.constexpr):
    """The same of the program's own tile."""
    return _tile(table, tiles, tl.program_id(0), TALL, WIDE)


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
def _as_above(i, j, value):
    """A tile on the diagonal with its upper half on both sides; every other tile as it is."""
    return tl.where(i[:, None] <= j[None, :], value, tl.trans(value))


@triton.jit
def _store_mirrored(matrix, i, j, value, mirrored):
    """Write a tile on or above the diagonal and, on the other side, the mirror image of another.

    A tile on the diagonal is its own other side, where both have to be the same to the last bit: with masks
    for its halves every tile would be written number by number.
    """
    tl.store(_at(matrix, i, j), value)
    tl.store(_at(matrix, j, i), tl.trans(mirrored))


@triton.jit
def _store_split_mirrored(high, low, i, j, value, mirrored):
    """The same in two parts."""
    part: tl.constexpr = high[0].dtype.element_ty
    top, mirrored_top = value.to(part), mirrored.to(part)
    _store_mirrored(high, i, j, top, mirrored_top)
    rest, mirrored_rest = value - top.to(tl.float32), mirrored - mirrored_top.to(tl.float32)
    _store_mirrored(low, i, j, rest.to(part), mirrored_rest.to(part))


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
def _copy(ahead, row):
    """Address of the overdamped step's copy of X."""
    return ahead.to(tl.int64) + 4 * tl.load(row + 4)


@triton.jit
def _identity(i, j, s):
    """Rows i and columns j of the s x s unit matrix; the padding is 0."""
    return tl.where((i[:, None] == j[None, :]) & (i[:, None] < s), 1.0, 0.0)


@triton.jit
def _inverse(a):
    """1/a, or 0 for 0."""
    return tl.where(a > 0, 1.0 / tl.where(a > 0, a, 1.0), 0.0)


@triton.jit
def _largest(value):
    """Largest absolute entry of a tile; infinity when one is NaN."""
    size = tl.abs(value)
    size = tl.where(size == size, size, float("inf"))
    return tl.max(tl.max(size, 1), 0)


@triton.jit
def _sum(high, low, i, j):
    """A tile that is in two parts."""
    return tl.load(_at(high, i, j)).to(tl.float32) + tl.load(_at(low, i, j)).to(tl.float32)


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
def _product_and_mirror(
    left_high, left_low, right_high, right_low, i, j, BLOCK: tl.constexpr, DEPTH: tl.constexpr
):
    """Tile (i, j) of L R + (L R)^T for two s x s matrices in two parts each."""
    above = tl.zeros((BLOCK, BLOCK), tl.float32)  # L R at (i, j)
    below = tl.zeros((BLOCK, BLOCK), tl.float32)  # at (j, i)
    for start in range(0, left_high[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        above = _split_dot(
            tl.load(_at(left_high, i, k)),
            tl.load(_at(left_low, i, k)),
            tl.load(_at(right_high, k, j)),
            tl.load(_at(right_low, k, j)),
            above,
        )
        below = _split_dot(
            tl.load(_at(left_high, j, k)),
            tl.load(_at(left_low, j, k)),
            tl.load(_at(right_high, k, i)),
            tl.load(_at(right_low, k, i)),
            below,
        )
    return above + tl.trans(below)


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
        here, inside = _in_memory(_copy(ahead, row), row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0) - X
    else:
        here, inside = _in_memory(tl.load(row + 1), row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0)
    _store_split(_band(P_high, row), _band(P_low, row), i, k, P)


@triton.jit
def products(
    table,
    tiles,  # of s x s matrices: all of K, and below them those of G on and above the diagonal
    X_high,
    X_low,
    P_high,
    P_low,
    inner,  # s x s workspace: K
    outer,  # s x s workspace: G
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """K = X P^T and G = P P^T."""
    _, row, _, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    K, G = _square(inner, row), _square(outer, row)
    twice = tl.load(tiles + 3 * tl.program_id(0) + 1) * BLOCK >= K[1]  # whether it is a tile of G
    i -= tl.where(twice, K[1], 0)
    Lh = _band(tl.where(twice, P_high, X_high), row)
    Ll = _band(tl.where(twice, P_low, X_low), row)
    Ph, Pl = _band(P_high, row), _band(P_low, row)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, Ph[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        right_high, right_low = tl.trans(tl.load(_at(Ph, j, k))), tl.trans(tl.load(_at(Pl, j, k)))
        # the matrix units cut off what a long sum cannot hold, always towards 0: they add little at a time
        part = tl.zeros((BLOCK, BLOCK), tl.float32)
        total += _split_dot(tl.load(_at(Lh, i, k)), tl.load(_at(Ll, i, k)), right_high, right_low, part)
    if twice:
        total = _as_above(i, j, total)
        _store_mirrored(G, i, j, total, total)
    else:
        tl.store(_at(K, i, j), total)


@triton.jit
def halves(
    table,
    tiles,  # of s x s matrices
    inner,  # K
    rates,  # float32: drift a first
    symmetric,  # s x s workspace: S
    skew,  # s x s workspace: A
    slope,  # s x s workspace: B = X X_bar^T
    S_high,
    S_low,
    D_high,  # S/2 - K
    D_low,
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,  # whether there is a row of rates for each matrix
    BLOCK: tl.constexpr,
):
    """S and A, the symmetric and the skew part of K, and B = I + a A for a momentum P, I + K for a step P."""
    matrix, row, s, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    K_at = _square(inner, row)
    K, K_mirrored = tl.load(_at(K_at, i, j)), tl.trans(tl.load(_at(K_at, j, i)))
    S, A = 0.5 * (K + K_mirrored), 0.5 * (K - K_mirrored)
    tl.store(_at(_square(symmetric, row), i, j), S)
    tl.store(_at(_square(skew, row), i, j), A)
    _store_split(_square(S_high, row), _square(S_low, row), i, j, S)
    _store_split(_square(D_high, row), _square(D_low, row), i, j, 0.5 * S - K)
    B = K if OVERDAMPED else tl.load(rates + matrix * 4 * VARIES) * A
    tl.store(_at(_square(slope, row), i, j), _identity(i, j, s) + B)


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
def _store_iterate(M_high, M_low, N_high, N_low, slope, row, i, j, M):
    """Write M and N = M/2 - B, in two parts each."""
    _store_split_mirrored(_square(M_high, row), _square(M_low, row), i, j, M, M)
    B, Nh, Nl = _square(slope, row), _square(N_high, row), _square(N_low, row)
    N, N_mirrored = 0.5 * M - tl.load(_at(B, i, j)), 0.5 * M - tl.trans(tl.load(_at(B, j, i)))
    _store_split_mirrored(Nh, Nl, i, j, N, N_mirrored)


@triton.jit
def gram(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    outer,  # G
    symmetric,  # S
    slope,  # B
    S_high,
    S_low,
    D_high,  # S/2 - K
    D_low,
    rates,  # float32: drift a first
    error,  # s x s workspace: E = X_bar X_bar^T - I
    M_high,  # s x s workspaces: E/2, where the quasi-Newton iteration begins
    M_low,
    N_high,  # s x s workspaces: M/2 - B
    N_low,
    size,  # float32 (matrices,): the largest entry of E
    bound,  # float32 (matrices,): no eigenvalue of X_bar X_bar^T is larger
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """E = a^2 (G + SD + (SD)^T) for a momentum P, G + 2 S for a step P."""
    matrix, row, s, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    E_at = _square(error, row)
    E = tl.load(_at(_square(outer, row), i, j))
    if OVERDAMPED:
        E += 2.0 * tl.load(_at(_square(symmetric, row), i, j))
    else:
        Sh, Sl, Dh, Dl = _square(S_high, row), _square(S_low, row), _square(D_high, row), _square(D_low, row)
        a = tl.load(rates + matrix * 4 * VARIES)
        E = a * a * (E + _product_and_mirror(Sh, Sl, Dh, Dl, i, j, BLOCK, DEPTH))
    tl.atomic_max(size + matrix, _largest(E))
    whole = tl.abs(_identity(i, j, s) + E)
    sums = tl.maximum(tl.max(tl.sum(whole, 1), 0), tl.max(tl.sum(whole, 0), 0))
    tl.atomic_max(bound + matrix, tl.where(sums == sums, sums, float("inf")) * (E_at[1] // BLOCK))
    _store_mirrored(E_at, i, j, E, E)
    _store_iterate(M_high, M_low, N_high, N_low, slope, row, i, j, 0.5 * E)


@triton.jit
def _iterate(
    table,
    tiles,
    tile,
    error,
    slope,
    M_high,
    M_low,
    N_high,
    N_low,
    new_M_high,
    new_M_low,
    new_N_high,
    new_N_low,
    size_earlier,
    size_before,
    size,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """A tile of one quasi-Newton iteration: the residual is E + MN + (MN)^T."""
    matrix, row, _, i, j = _tile(table, tiles, tile, BLOCK, BLOCK)
    earlier, before = tl.load(size_earlier + matrix), tl.load(size_before + matrix)
    Mh, Ml = _square(M_high, row), _square(M_low, row)
    move = _gets_on(earlier, before)
    if not (earlier <= _ENOUGH):  # else both workspaces have it
        M = _sum(Mh, Ml, i, j)
        if move:
            Nh, Nl = _square(N_high, row), _square(N_low, row)
            residual = _product_and_mirror(Mh, Ml, Nh, Nl, i, j, BLOCK, DEPTH)
            residual += tl.load(_at(_square(error, row), i, j))
            M += 0.5 * residual
            tl.atomic_max(size + matrix, _largest(residual))
        _store_iterate(new_M_high, new_M_low, new_N_high, new_N_low, slope, row, i, j, M)
    if not move:
        tl.atomic_max(size + matrix, tl.where(before <= _ENOUGH, before, float("inf")))


@triton.jit
def _gets_on(earlier, before):
    """Whether an iteration goes on, by its residuals two iterations before and in the one before."""
    return (before > _ENOUGH) & (before <= _PROGRESS * earlier) & (before < 1e3)


@triton.jit
def quasi_newton(
    table,
    tiles,  # on and above the diagonal
    error,  # E
    slope,  # B
    M_high,
    M_low,
    N_high,  # M/2 - B
    N_low,
    new_M_high,  # M + (E - MB - (MB)^T + M^2)/2
    new_M_low,
    new_N_high,
    new_N_low,
    size_earlier,  # float32 (matrices,): largest entry of the residual two iterations before
    size_before,  # of the one before
    size,  # of this one; infinite when the iteration does not get on
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """One quasi-Newton iteration."""
    _iterate(
        table,
        tiles,
        tl.program_id(0),
        error,
        slope,
        M_high,
        M_low,
        N_high,
        N_low,
        new_M_high,
        new_M_low,
        new_N_high,
        new_N_low,
        size_earlier,
        size_before,
        size,
        BLOCK,
        DEPTH,
    )


@triton.jit
def _meet(arrivals, turn):
    """Wait until every program has been here ``turn`` times, and see what they wrote before."""
    tl.debug_barrier()  # all of this program has been written
    tl.atomic_add(arrivals, 1)
    while tl.atomic_add(arrivals, 0) < turn * tl.num_programs(0):
        pass
    tl.debug_barrier()


@triton.jit
def quasi_newton_to_the_end(
    table,
    tiles,
    error,
    slope,
    M_high,
    M_low,
    N_high,
    N_low,
    new_M_high,
    new_M_low,
    new_N_high,
    new_N_low,
    sizes,  # float32 (2 + ITERATIONS, matrices): of all iterations; infinite, and of E, before the first
    arrivals,  # int32 (1,), 0 at first
    count,  # of tiles
    matrices,
    MATRICES: tl.constexpr,  # a power of 2 that is at least as much
    ITERATIONS: tl.constexpr,  # an even number
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """The iterations that are left, as many as any matrix needs, in programs that wait for each other."""
    number = tl.arange(0, MATRICES)
    known = number < matrices
    earlier = tl.load(sizes + number, mask=known, other=0.0)
    before = tl.load(sizes + matrices + number, mask=known, other=0.0)
    if tl.max((known & _gets_on(earlier, before)).to(tl.int32), 0) > 0:
        for k in range(ITERATIONS):
            size = sizes + k * matrices
            for tile in range(tl.program_id(0), count, tl.num_programs(0)):
                _iterate(
                    table,
                    tiles,
                    tile,
                    error,
                    slope,
                    M_high,
                    M_low,
                    N_high,
                    N_low,
                    new_M_high,
                    new_M_low,
                    new_N_high,
                    new_N_low,
                    size,
                    size + matrices,
                    size + 2 * matrices,
                    BLOCK,
                    DEPTH,
                )
            _meet(arrivals, k + 1)
            M_high, new_M_high = new_M_high, M_high
            M_low, new_M_low = new_M_low, M_low
            N_high, new_N_high = new_N_high, N_high
            N_low, new_N_low = new_N_low, N_low
    elif tl.program_id(0) == 0:
        last = tl.where(before <= _ENOUGH, before, float("inf"))
        tl.store(sizes + (ITERATIONS + 1) * matrices + number, last, mask=known)


@triton.jit
def count(
    sizes,  # float32 (ROWS, row): of the residual before each iteration, and of the last
    total,  # int64 (4,): as solves.Solves
    row,
    matrices,
    ROWS: tl.constexpr,
    MATRICES: tl.constexpr,  # a power of 2 that is at least as much
):
    """Add a call, its matrices, the iterations of the slowest, and how many of them failed."""
    number = tl.arange(0, MATRICES)
    known = number < matrices
    iterations = tl.zeros((MATRICES,), tl.int32)
    for k in range(ROWS - 1):
        size = tl.load(sizes + k * row + number, mask=known, other=0.0)
        iterations += ((size > _ENOUGH) & (size < float("inf"))).to(tl.int32)
    size = tl.load(sizes + (ROWS - 1) * row + number, mask=known, other=0.0)
    failed = known & ~(size <= _ENOUGH)
    # others may be adding too, on another stream
    tl.atomic_add(total, 1)
    tl.atomic_add(total + 1, matrices)
    tl.atomic_add(total + 2, tl.max(iterations, 0))
    tl.atomic_add(total + 3, tl.sum(failed.to(tl.int32), 0))


@triton.jit
def polar(
    table,
    tiles,  # of s x s matrices, all of them
    error,  # E
    bound,
    size,  # float32 (matrices,): of the quasi-Newton iteration's last residual
    Y,
    Z,  # s x s workspace: the result
    Y_spare,
    Z_spare,
    T,
    sizes,  # float32 (ITERATIONS + 1, matrices): largest entry of I - ZY before each iteration, 0 at first
    arrivals,  # int32 (1,), 0 at first
    count,  # of tiles
    matrices,
    MATRICES: tl.constexpr,  # a power of 2 that is at least as much
    ITERATIONS: tl.constexpr,  # an even number
    BLOCK: tl.constexpr,
):
    """Z = (X_bar X_bar^T / bound)^(-1/2) where quasi-Newton failed, by Newton-Schulz.

    Y and Z begin as X_bar X_bar^T / bound and I; an iteration is T = (3 I - Z Y)/2, Y <- Y T, Z <- T Z, in
    which every matrix is symmetric. The programs, which share the tiles out among them, wait for each other:
    all have to be there at once. Mostly nothing has failed, and they end as soon as they have seen it.
    """
    number = tl.arange(0, MATRICES)
    known = number < matrices
    failed = known & ~(tl.load(size + number, mask=known, other=0.0) <= _ENOUGH)
    if tl.max(failed.to(tl.int32), 0) > 0:
        for tile in range(tl.program_id(0), count, tl.num_programs(0)):
            matrix, row, s, i, j = _tile(table, tiles, tile, BLOCK, BLOCK)
            if not (tl.load(size + matrix) <= _ENOUGH):
                identity = _identity(i, j, s)
                whole = tl.load(_at(_square(error, row), i, j)) + identity
                tl.store(_at(_square(Y, row), i, j), whole / tl.load(bound + matrix))
                tl.store(_at(_square(Z, row), i, j), identity)
                tl.atomic_max(sizes + matrix, 1.0)
        _meet(arrivals, 1)
        for k in range(ITERATIONS):
            before, after = sizes + k * matrices, sizes + (k + 1) * matrices
            for tile in range(tl.program_id(0), count, tl.num_programs(0)):
                matrix, row, s, i, j = _tile(table, tiles, tile, BLOCK, BLOCK)
                largest = tl.load(before + matrix)
                if largest > _NEAR:
                    identity = _identity(i, j, s)
                    ZY = _square_product(_square(Z, row), _square(Y, row), i, j, "tf32x3", BLOCK)
                    tl.store(_at(_square(T, row), i, j), 1.5 * identity - 0.5 * ZY)
                    largest = _largest(identity - ZY)
                tl.atomic_max(after + matrix, largest)
            _meet(arrivals, 2 * k + 2)
            for tile in range(tl.program_id(0), count, tl.num_programs(0)):
                matrix, row, s, i, j = _tile(table, tiles, tile, BLOCK, BLOCK)
                largest = tl.load(before + matrix)
                Y_at, Z_at, T_at = _square(Y, row), _square(Z, row), _square(T, row)
                here, there = _at(_square(Y_spare, row), i, j), _at(_square(Z_spare, row), i, j)
                if largest > _NEAR:
                    tl.store(here, _square_product(Y_at, T_at, i, j, "tf32x3", BLOCK))
                    tl.store(there, _square_product(T_at, Z_at, i, j, "tf32x3", BLOCK))
                elif largest > 0:
                    tl.store(here, tl.load(_at(Y_at, i, j)))
                    tl.store(there, tl.load(_at(Z_at, i, j)))
            _meet(arrivals, 2 * k + 3)
            Y, Y_spare, Z, Z_spare = Y_spare, Y, Z_spare, Z


@triton.jit
def choose(
    table,
    tiles,
    inner,  # K
    M_high,
    M_low,
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
    D_high,  # U/2a - K, where quasi-Newton converged
    D_low,
    OVERDAMPED: tl.constexpr,
    VARIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What X is multiplied by, in two parts: U = M + a S where quasi-Newton converged, else Z - a Z S.

    There Z comes in two parts too. The skew part A stays, or is (ZA + AZ)/2. A step has S in its M and Z.
    """
    matrix, row, _, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    K_at, Z_at, S_at, A_at = (
        _square(inner, row),
        _square(Z, row),
        _square(symmetric, row),
        _square(skew, row),
    )
    a = tl.load(rates + matrix * 4 * VARIES)
    if tl.load(size + matrix) <= _ENOUGH:
        U = _sum(_square(M_high, row), _square(M_low, row), i, j)
        if not OVERDAMPED:
            U += a * tl.load(_at(S_at, i, j))
            D = 0.5 * _inverse(a) * U - tl.load(_at(K_at, i, j))
            _store_split(_square(D_high, row), _square(D_low, row), i, j, D)
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
    if not OVERDAMPED:
        tl.store(_at(_square(arrived, row), i, j), A)


@triton.jit
def arrival(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    inner,  # K
    outer,  # G
    skew,  # A of the momentum that arrives at X'
    U_high,
    U_low,
    Z_high,
    Z_low,
    D_high,  # U/2a - K, where quasi-Newton converged
    D_low,
    size,  # of the quasi-Newton iteration's last residual
    rates,  # float32: drift a first
    symmetric,  # S, then S'
    slant,  # s x s workspace of parts: L = 2 S' + A
    extent,  # float32 (matrices,): largest entry of S'
    slant_extent,  # of L
    VARIES: tl.constexpr,
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """S', the symmetric part of X' P^T: what of the momentum P that arrives points off the manifold.

    Where quasi-Newton failed, it is (I - V)/a with V the symmetric part of X' X^T = U + a Z K^T, but for E/a.
    There K counts in full, since it is a difference of large numbers.
    """
    matrix, row, s, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    a = tl.load(rates + matrix * 4 * VARIES)
    Uh, Ul, S_at = _square(U_high, row), _square(U_low, row), _square(symmetric, row)
    if tl.load(size + matrix) <= _ENOUGH:
        Dh, Dl = _square(D_high, row), _square(D_low, row)
        S = _product_and_mirror(Uh, Ul, Dh, Dl, i, j, BLOCK, DEPTH) - _inverse(a) * _sum(Uh, Ul, i, j)
        S += tl.load(_at(S_at, i, j)) + a * tl.load(_at(_square(outer, row), i, j))
    else:
        Zh, Zl, K_at = _square(Z_high, row), _square(Z_low, row), _square(inner, row)
        above = tl.zeros((BLOCK, BLOCK), tl.float32)  # Z K^T at (i, j)
        below = tl.zeros((BLOCK, BLOCK), tl.float32)  # at (j, i)
        for start in range(0, K_at[1], DEPTH):
            k = start + tl.arange(0, DEPTH)
            right = tl.trans(tl.load(_at(K_at, j, k)))
            above = tl.dot(_sum(Zh, Zl, i, k), right, above, input_precision="tf32x3")
            right = tl.trans(tl.load(_at(K_at, i, k)))
            below = tl.dot(_sum(Zh, Zl, j, k), right, below, input_precision="tf32x3")
        V = _sum(Uh, Ul, i, j) + a * above + tl.trans(_sum(Uh, Ul, j, i) + a * below)
        S = _inverse(a) * (_identity(i, j, s) - 0.5 * V)
    A = tl.load(_at(_square(skew, row), i, j))
    A = tl.where(i[:, None] <= j[None, :], A, -tl.trans(A))  # exactly skew, also where it was rounded
    _store_mirrored(S_at, i, j, S, S)
    L, L_mirrored = 2.0 * S + A, 2.0 * S - A
    part: tl.constexpr = slant.dtype.element_ty
    _store_mirrored(_square(slant, row), i, j, L.to(part), L_mirrored.to(part))
    tl.atomic_max(extent + matrix, _largest(S))
    tl.atomic_max(slant_extent + matrix, tl.maximum(_largest(L), _largest(L_mirrored)))


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
    landed_high,  # s x r workspaces: X'
    landed_low,
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
    V = _wide_product(Uh, Ul, Xh, Xl, i, k, TALL, WIDE, DEPTH)
    a = 1.0 if OVERDAMPED else tl.load(rates + matrix * 4 * VARIES)
    converged = tl.load(size + matrix) <= _ENOUGH
    if not converged:
        Zh, Zl, Ph, Pl = _square(Z_high, row), _square(Z_low, row), _band(P_high, row), _band(P_low, row)
        V += a * _wide_product(Zh, Zl, Ph, Pl, i, k, TALL, WIDE, DEPTH)
    # as a sum in which one of two terms is chosen: that takes the fewest registers
    V *= tl.where(converged, -1.0, 1.0)
    here, inside = _in_memory(tl.load(row), row, i, k, LAYOUT)
    X = tl.load(here, mask=inside, other=0.0)
    if OVERDAMPED:
        here, inside = _in_memory(_copy(ahead, row), row, i, k, LAYOUT)
        X_new = tl.where(converged, tl.load(here, mask=inside, other=0.0), 0.0) + V
    else:
        here, inside = _in_memory(tl.load(row + 1), row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0)
        X_new = tl.where(converged, X + a * P, 0.0) + V
        rate = _inverse(a)
        tl.store(here, tl.where(converged, P, -rate * X) + rate * V, mask=inside)
    _store_split(_band(landed_high, row), _band(landed_low, row), i, k, X_new * _X_UNIT)


@triton.jit
def examine(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    landed_high,  # X'
    landed_low,
    error,  # s x s workspace: E = X' X'^T - I
    error_high,  # s x s workspace of parts: the same
    size,  # float32 (matrices,): largest entry of E
    BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """How far X' is from the manifold."""
    matrix, row, s, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    high, low = _band(landed_high, row), _band(landed_low, row)
    E = _identity(i, j, s) * (-_X_UNIT * _X_UNIT)
    for start in range(0, high[1], DEPTH):
        k = start + tl.arange(0, DEPTH)
        part = tl.zeros((BLOCK, BLOCK), tl.float32)  # as in products
        right_high, right_low = tl.trans(tl.load(_at(high, j, k))), tl.trans(tl.load(_at(low, j, k)))
        E += _split_dot(tl.load(_at(high, i, k)), tl.load(_at(low, i, k)), right_high, right_low, part)
    E = _as_above(i, j, E / (_X_UNIT * _X_UNIT))
    _store_mirrored(_square(error, row), i, j, E, E)
    top = E.to(error_high.dtype.element_ty)
    _store_mirrored(_square(error_high, row), i, j, top, top)
    tl.atomic_max(size + matrix, _largest(E))


@triton.jit
def correction(
    table,
    tiles,  # of s x s matrices, on and above the diagonal
    error,  # E
    error_high,
    size,  # largest entry of E
    C_high,  # s x s workspace: -E/2 + 3 E^2/8, the expansion of (I + E)^(-1/2) - I
    symmetric,  # S', but for E/a where quasi-Newton failed
    slant,  # L = 2 S' + A
    extent,  # largest entry of S'
    slant_extent,  # of L
    landing_size,  # of the quasi-Newton iteration's last residual
    rates,  # float32: drift a first
    T_high,  # s x s workspaces: S' - (EL + (EL)^T)/4, the same at X'' to first order
    T_low,
    T_unit,  # float32 (matrices,): what T is multiplied by
    MOMENTUM: tl.constexpr,
    VARIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What takes X' onto the manifold and P into the cotangent space there.

    E is so small that its high part is enough in a product, and that of C in the next.
    """
    matrix, row, s, i, j = _matrix(table, tiles, BLOCK, BLOCK)
    E_at, L_at = _square(error_high, row), _square(slant, row)
    EE = tl.zeros((BLOCK, BLOCK), tl.float32)
    above = tl.zeros((BLOCK, BLOCK), tl.float32)  # EL at (i, j)
    below = tl.zeros((BLOCK, BLOCK), tl.float32)  # at (j, i)
    for start in range(0, E_at[1], BLOCK):
        k = start + tl.arange(0, BLOCK)
        here, there = tl.load(_at(E_at, i, k)), tl.load(_at(E_at, j, k))
        EE = tl.dot(here, tl.trans(there), EE)
        if MOMENTUM:
            above = tl.dot(here, tl.load(_at(L_at, k, j)), above)
            below = tl.dot(there, tl.load(_at(L_at, k, i)), below)
    E = tl.load(_at(_square(error, row), i, j))
    C = ((0.375 * EE - 0.5 * E) * _C_UNIT).to(C_high.dtype.element_ty)
    _store_mirrored(_square(C_high, row), i, j, C, C)
    if MOMENTUM:
        S = tl.load(_at(_square(symmetric, row), i, j))
        steepness = 0.5 * s * tl.load(slant_extent + matrix)  # T grows by at most so much times E
        if not (tl.load(landing_size + matrix) <= _ENOUGH):
            rate = _inverse(tl.load(rates + matrix * 4 * VARIES))
            S += rate * E
            steepness += rate
        most = tl.load(extent + matrix) + steepness * tl.load(size + matrix)
        unit = 1.0 / tl.maximum(most, 1e-30) * _T_LARGEST
        T = unit * (S - 0.25 * (above + tl.trans(below)))
        _store_split_mirrored(_square(T_high, row), _square(T_low, row), i, j, T, T)
        tl.store(T_unit + matrix, unit)


@triton.jit
def correct(
    table,
    tiles,  # of s x r matrices
    landed_high,  # X'
    landed_low,
    C_high,
    T_high,
    T_low,
    T_unit,
    size,  # largest entry of X' X'^T - I
    MOMENTUM: tl.constexpr,
    LAYOUT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """X = X' + C X' and P <- P - T X'; where X' is too far off for that, X stays and P is 0."""
    matrix, row, _, i, k = _matrix(table, tiles, TALL, WIDE)
    Ch, Th, Tl = _square(C_high, row), _square(T_high, row), _square(T_low, row)
    Xh, Xl = _band(landed_high, row), _band(landed_low, row)
    CX = tl.zeros((TALL, WIDE), tl.float32)
    TX = tl.zeros((TALL, WIDE), tl.float32)
    for start in range(0, Ch[1], DEPTH):
        j = start + tl.arange(0, DEPTH)
        high = tl.load(_at(Xh, j, k))
        CX = tl.dot(tl.load(_at(Ch, i, j)), high, CX)
        if MOMENTUM:
            TX = _split_dot(tl.load(_at(Th, i, j)), tl.load(_at(Tl, i, j)), high, tl.load(_at(Xl, j, k)), TX)
    well = tl.load(size + matrix) <= _REACH
    here, inside = _in_memory(tl.load(row), row, i, k, LAYOUT)
    if well:
        tl.store(here, (_sum(Xh, Xl, i, k) + CX / _C_UNIT) / _X_UNIT, mask=inside)
    if MOMENTUM:
        here, inside = _in_memory(tl.load(row + 1), row, i, k, LAYOUT)
        P = tl.load(here, mask=inside, other=0.0) - TX / (tl.load(T_unit + matrix) * _X_UNIT)
        tl.store(here, tl.where(well, P, 0.0), mask=inside)
