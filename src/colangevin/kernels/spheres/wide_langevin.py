"""The Langevin step of rows that many programs work on.

It stays in the span of four vectors: the position x on the unit sphere, the momentum p, the kick f and the
noise R. So the coefficients of x and p after the step follow from the ten inner products of the four. Where f
is nearly normal they would lose its tangent part; there f less kappa x is taken in its place.
"""

import triton
import triton.language as tl

from colangevin.kernels.chunks import own_block, own_row
from colangevin.kernels.letters import LETTER_A, LETTER_B
from colangevin.kernels.noise import copy_key, draw_key, normals_of
from colangevin.kernels.rates import DECAY, DRIFT, KICK, NOISE_SCALE, rates_of
from colangevin.kernels.spheres.tiles import COPY, FLAG, MOMENTUM, POSITION, SEED, STEP, WEIGHT, WORD
from colangevin.kernels.spheres.wide import (
    PARTS_OF_A_PIECE,
    address_of,
    at,
    entries_of,
    entry_number,
    number_of,
    piece_number,
    piece_places,
    radius_of,
    row_and_piece,
    row_number,
    slack_slot,
    total,
    where_finite,
)

__all__ = ["wide_evolve", "wide_gram", "wide_move", "wide_normal"]

_LIMIT = tl.constexpr(4.0e9)  # of a kick: the fourth root of the largest float32
_NORMAL = tl.constexpr(1e-8)  # squared tangent part of a kick that counts as nearly normal
_KAPPA = tl.constexpr(8)  # its place among the coefficients of a row
_TINY = tl.constexpr(1.0842021724855044e-19)  # square root of the smallest normal float32


@triton.jit
def _key(table, weight):
    """Key of a weight's noise: all of it is one draw."""
    step = tl.load(address_of(table, weight, STEP, tl.int64))
    seed, word = number_of(table, weight, SEED), number_of(table, weight, WORD)
    return draw_key(copy_key(seed, step, word, number_of(table, weight, COPY)), 0)


@triton.jit
def _vectors(
    table,
    grads,
    decays,
    rates,
    weight,
    row,
    entry,
    place,
    slot,
    inside,
    kappa,
    LETTERS: tl.constexpr,
    NOISE: tl.constexpr,
    PARTS: tl.constexpr,
    SLACK: tl.constexpr,
    STORED: tl.constexpr,
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
):
    """The four vectors in float64, 0 where there is none, and whether a gradient is not finite."""
    if STORED:
        q = tl.load(address_of(table, weight, POSITION, tl.float32) + slot, mask=inside, other=0.0)
        theta = q.to(weight_type).to(tl.float32)
    else:
        q = tl.load(address_of(table, weight, WEIGHT, weight_type) + place, mask=inside, other=0.0)
        q = q.to(tl.float32)
        theta = q
    unit = 1.0 / radius_of(table, weight, row)
    raw = tl.load(tl.load(grads + weight).to(tl.pointer_type(grad_type)) + place, mask=inside, other=0.0)
    raw = raw.to(tl.float32)
    bad = (tl.abs(raw) >= float("inf")) | (raw != raw)
    grad = tl.where(bad, 0.0, raw)
    if MAXIMIZE:
        grad = -grad
    kick = tl.load(rates + KICK) * (grad + tl.load(decays + weight) * theta)
    x = (q * unit).to(tl.float64)
    if LETTERS == 0:
        f = (kick * unit).to(tl.float64)
        p = x * 0.0
    else:
        f = tl.minimum(tl.maximum(kick, -_LIMIT), _LIMIT).to(tl.float64)
        p = tl.load(address_of(table, weight, MOMENTUM, tl.float32) + slot, mask=inside, other=0.0)
        p = p.to(tl.float64)
    noise = x * 0.0
    if NOISE:
        element = entry_number(table, weight, row, entry, SLACK, PARTS)
        noise = tl.where(inside, normals_of(_key(table, weight), element), 0.0).to(tl.float64)
    return x, p, f - kappa * x, noise, tl.max(bad.to(tl.int32), 0) > 0


@triton.jit
def _put(to, j: tl.constexpr, k: tl.constexpr, u, v, asked_for):
    """An inner product at its two places in a Gram matrix."""
    found = tl.sum(u * v, 0)
    tl.store(to + 4 * j + k, found, mask=asked_for)
    if j != k:
        tl.store(to + 4 * k + j, found, mask=asked_for)


@triton.jit
def wide_gram(
    table,  # int64: a SphereRow for each weight
    wide,  # int64: a WideRow for each weight
    grads,  # int64 (weights,): addresses of the gradients
    decays,  # float32 (weights,): weight decay
    chunks,  # int32: a ChunkRow for each program, whose block is a piece of a row
    flags,  # int32 (parameters,): set where a gradient is not finite
    rates,  # float32: one RateRow, or one for each weight
    partials,  # float64 (pieces, 16)
    coefficients,  # float64 (rows, 16)
    AGAIN: tl.constexpr,  # whether only rows with a kappa are asked for
    LETTERS: tl.constexpr,  # of the splitting, encoded; 0 for the overdamped step
    NOISE: tl.constexpr,
    PARTS: tl.constexpr,  # whether weights are parts of others, whose noise they draw
    VARIES: tl.constexpr,  # whether there is a row of rates for each weight
    SLACK: tl.constexpr,
    STORED: tl.constexpr,  # whether the position is kept apart from the weight
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    PIECE: tl.constexpr,
    OUTER: tl.constexpr,  # how many digits lead to the place of a row
    INNER: tl.constexpr,  # and to that of an entry; 0 where entries and rows follow one another
    ALIKE: tl.constexpr,  # whether the state lies as the weight does, without padding
):
    """The part of a piece in the Gram matrix of its row; f has a NaN for its square if a gradient is bad."""
    weight = own_row(chunks)
    row, piece = row_and_piece(wide, weight, own_block(chunks))
    rates = rates_of(rates, weight, VARIES)
    entry, place, slot, inside = piece_places(table, weight, row, piece, PIECE, OUTER, INNER, ALIKE)
    kappa = 0.0
    asked_for = row >= 0
    if AGAIN:
        kappa = tl.load(coefficients + row_number(wide, weight, row) * PARTS_OF_A_PIECE + _KAPPA)
        inside = tl.where(inside, kappa, 0.0) != 0
        asked_for = kappa != 0
    x, p, f, noise, bad = _vectors(
        table, grads, decays, rates, weight, row, entry, place, slot, inside, kappa,
        LETTERS, NOISE, PARTS, SLACK, STORED, MAXIMIZE, weight_type, grad_type,
    )  # fmt: skip
    if not AGAIN:
        tl.store(flags + number_of(table, weight, FLAG), 1, mask=bad)
    to = partials + piece_number(wide, weight, row, piece) * PARTS_OF_A_PIECE
    _put(to, 0, 0, x, x, asked_for)
    _put(to, 0, 2, x, f, asked_for)
    tl.store(to + 10, tl.where(bad, float("nan"), tl.sum(f * f, 0)), mask=asked_for)
    if LETTERS != 0:
        _put(to, 0, 1, x, p, asked_for)
        _put(to, 1, 1, p, p, asked_for)
        _put(to, 1, 2, p, f, asked_for)
    if NOISE:
        _put(to, 0, 3, x, noise, asked_for)
        _put(to, 2, 3, f, noise, asked_for)
        _put(to, 3, 3, noise, noise, asked_for)
        if LETTERS != 0:
            _put(to, 1, 3, p, noise, asked_for)


@triton.jit
def wide_normal(
    table,
    wide,
    chunks,  # int32: a ChunkRow for each program, whose block is a row
    partials,
    coefficients,
    AT_ONCE: tl.constexpr,
):
    """Which rows have a kick that is nearly normal, and how far it leads along x: their kappa."""
    weight = own_row(chunks)
    row = own_block(chunks)
    gram = total(partials, wide, weight, row, AT_ONCE)
    along = at(gram, 0, 2) / at(gram, 0, 0)
    left = at(gram, 2, 2) - along * at(gram, 0, 2)
    to = coefficients + row_number(wide, weight, row) * PARTS_OF_A_PIECE + _KAPPA
    tl.store(to, tl.where(left < _NORMAL * at(gram, 2, 2), along, 0.0))


@triton.jit
def _inner(gram, u, v):
    """The inner product of two vectors, given by their coefficients."""
    return tl.sum(tl.sum(gram * v[None, :], 1) * u, 0)


@triton.jit
def wide_evolve(
    table,
    wide,
    chunks,  # int32: a ChunkRow for each program, whose block is a row
    rates,
    partials,
    coefficients,  # float64 (rows, 16): four of x and four of p after the step; NaN where it may not move
    LETTERS: tl.constexpr,
    COUNT: tl.constexpr,  # of letters
    NOISE: tl.constexpr,
    PARTS: tl.constexpr,
    VARIES: tl.constexpr,
    SLACK: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    """The coefficients of a row's position and momentum after the step, and its slack."""
    weight = own_row(chunks)
    row = own_block(chunks)
    rates = rates_of(rates, weight, VARIES)
    a = tl.load(rates + DRIFT).to(tl.float64)
    c, d = tl.load(rates + DECAY).to(tl.float64), tl.load(rates + NOISE_SCALE).to(tl.float64)
    r = radius_of(table, weight, row).to(tl.float64)
    gram = total(partials, wide, weight, row, AT_ONCE)
    e = tl.arange(0, 4)
    if SLACK:
        slot = slack_slot(table, weight, row)
        position_at = address_of(table, weight, POSITION, tl.float32) + slot
        momentum_at = address_of(table, weight, MOMENTUM, tl.float32) + slot
        own = tl.where(
            e == 0, (tl.load(position_at) * (1.0 / radius_of(table, weight, row))).to(tl.float64), 0.0
        )
        if LETTERS != 0:
            own += tl.where(e == 1, tl.load(momentum_at).to(tl.float64), 0.0)
        if NOISE:
            element = entry_number(table, weight, row, entries_of(table, weight), SLACK, PARTS)
            own += tl.where(e == 3, normals_of(_key(table, weight), element).to(tl.float64), 0.0)
        gram += own[:, None] * own[None, :]

    to = coefficients + row_number(wide, weight, row) * PARTS_OF_A_PIECE
    x = tl.where(e == 0, 1.0 / tl.sqrt(at(gram, 0, 0)), 0.0)
    p = tl.where(e == 1, 1.0, 0.0).to(tl.float64)
    kick = tl.where(e == 2, 1.0, 0.0).to(tl.float64)
    noise = tl.where(e == 3, 1.0, 0.0).to(tl.float64)
    if LETTERS == 0:
        x_bar = x - kick + d / r * noise - tl.where(e == 0, tl.load(to + _KAPPA), 0.0)
        x = _normalise(gram, x_bar, x)
    else:
        for letter in tl.static_range(COUNT):
            if (LETTERS >> (2 * letter)) & 3 == LETTER_A:
                s = tl.sqrt(tl.maximum(_inner(gram, p, p), 0.0))
                phi = a * s / r
                # sin(phi) / phi, by its series near 0
                ahead = tl.where(phi > 1e-8, tl.sin(phi) / tl.where(phi > 1e-8, phi, 1.0), 1.0)
                x_bar = tl.cos(phi) * x + (a / r * ahead) * p
                p_bar = tl.cos(phi) * p - (s * tl.sin(phi)) * x
                x = _normalise(gram, x_bar, x)
                p = p_bar - _inner(gram, x, p_bar) * x
            elif (LETTERS >> (2 * letter)) & 3 == LETTER_B:
                p = p - kick
                p = p - _inner(gram, x, p) * x
            else:
                p = c * p
                if NOISE:
                    p = p + d * noise
                    p = p - _inner(gram, x, p) * x
    # a maximum is no NaN where one of its arguments is a number, so NaNs are put in here
    finite = at(gram, 2, 2) == at(gram, 2, 2)
    x = tl.where(finite, x, float("nan"))
    tl.store(to + e, x)
    tl.store(to + 4 + e, p)
    if SLACK:
        tl.store(position_at, (r * tl.sum(x * own, 0)).to(tl.float32), mask=finite)
        if LETTERS != 0:
            tl.store(momentum_at, tl.sum(p * own, 0).to(tl.float32), mask=finite)


@triton.jit
def _normalise(gram, x_bar, x):
    """The coefficients of x_bar / |x_bar|; of x where x_bar is the centre, to rounding."""
    length = tl.sqrt(tl.maximum(_inner(gram, x_bar, x_bar), 0.0))
    lost = length <= _TINY
    return tl.where(lost, x, x_bar / tl.where(lost, 1.0, length))


@triton.jit
def wide_move(
    table,
    wide,
    grads,
    decays,
    chunks,  # int32: a ChunkRow for each program, whose block is a piece of a row
    rates,
    coefficients,
    LETTERS: tl.constexpr,
    NOISE: tl.constexpr,
    PARTS: tl.constexpr,
    VARIES: tl.constexpr,
    SLACK: tl.constexpr,
    STORED: tl.constexpr,
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    PIECE: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Write position and momentum of a piece."""
    weight = own_row(chunks)
    row, piece = row_and_piece(wide, weight, own_block(chunks))
    rates = rates_of(rates, weight, VARIES)
    entry, place, slot, inside = piece_places(table, weight, row, piece, PIECE, OUTER, INNER, ALIKE)
    of_x = coefficients + row_number(wide, weight, row) * PARTS_OF_A_PIECE
    kappa = tl.load(of_x + _KAPPA)
    x, p, f, noise, _ = _vectors(
        table, grads, decays, rates, weight, row, entry, place, slot, inside, kappa,
        LETTERS, NOISE, PARTS, SLACK, STORED, MAXIMIZE, weight_type, grad_type,
    )  # fmt: skip
    r = radius_of(table, weight, row).to(tl.float64)
    x_new = tl.load(of_x) * x + tl.load(of_x + 1) * p + tl.load(of_x + 2) * f + tl.load(of_x + 3) * noise
    inside = where_finite(inside, tl.load(of_x))
    q = (r * x_new).to(tl.float32)
    if LETTERS != 0:
        of_p = of_x + 4
        p_new = tl.load(of_p) * x + tl.load(of_p + 1) * p + tl.load(of_p + 2) * f + tl.load(of_p + 3) * noise
        tl.store(address_of(table, weight, MOMENTUM, tl.float32) + slot, p_new.to(tl.float32), mask=inside)
    if STORED:
        tl.store(address_of(table, weight, POSITION, tl.float32) + slot, q, mask=inside)
    tl.store(address_of(table, weight, WEIGHT, weight_type) + place, q.to(weight_type), mask=inside)
