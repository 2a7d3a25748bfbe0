"""Adam's step of rows that many programs work on.

The programs of a row meet twice: for the inner products of position x, gradient g and momentum m, and for
those of the direction d. The numbers of a row in ``coefficients`` are, in their order, <x, x>, <x, g>, <x, m>
and, from the second meeting, the coefficients of x and d in the new position, and m's product with that.
"""

import triton
import triton.language as tl

from colangevin.kernels.adam.averages import corrections_of, numbers_of, quotient, squares
from colangevin.kernels.chunks import own_block, own_row
from colangevin.kernels.spheres.tiles import FLAG, MOMENTUM, POSITION, SECOND, WEIGHT
from colangevin.kernels.spheres.wide import (
    PARTS_OF_A_PIECE,
    address_of,
    at,
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

__all__ = ["wide_average", "wide_dots", "wide_means", "wide_turn", "wide_walk"]

_LIMIT = tl.constexpr(1.0e15)  # of a gradient, as where one program holds a row


@triton.jit
def _position(table, weight, row, place, slot, inside, STORED: tl.constexpr, weight_type: tl.constexpr):
    """The unit vector of a piece, and the weight there."""
    if STORED:
        q = tl.load(address_of(table, weight, POSITION, tl.float32) + slot, mask=inside, other=0.0)
        theta = q.to(weight_type).to(tl.float32)
    else:
        theta = tl.load(address_of(table, weight, WEIGHT, weight_type) + place, mask=inside, other=0.0)
        theta = theta.to(tl.float32)
        q = theta
    return q * (1.0 / radius_of(table, weight, row)), theta


@triton.jit
def _gradient(grads, weight, place, inside, MAXIMIZE: tl.constexpr, grad_type: tl.constexpr):
    """The gradient of a piece, with 0 for what is not finite, and whether there is such."""
    raw = tl.load(tl.load(grads + weight).to(tl.pointer_type(grad_type)) + place, mask=inside, other=0.0)
    raw = raw.to(tl.float32)
    bad = (tl.abs(raw) >= float("inf")) | (raw != raw)
    grad = tl.minimum(tl.maximum(tl.where(bad, 0.0, raw), -_LIMIT), _LIMIT)
    if MAXIMIZE:
        grad = -grad
    return grad, tl.max(bad.to(tl.int32), 0) > 0


@triton.jit
def _state(table, weight, COLUMN: tl.constexpr, slot, inside):
    return tl.load(address_of(table, weight, COLUMN, tl.float32) + slot, mask=inside, other=0.0)


@triton.jit
def wide_dots(
    table,  # int64: a SphereRow for each weight
    wide,  # int64: a WideRow for each weight
    grads,  # int64 (weights,): addresses of the gradients
    chunks,  # int32: a ChunkRow for each program, whose block is a piece of a row
    flags,  # int32 (parameters,): set where a gradient is not finite
    partials,  # float64 (pieces, 16)
    STORED: tl.constexpr,  # whether the position is kept apart from the weight
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    PIECE: tl.constexpr,
    OUTER: tl.constexpr,  # how many digits lead to the place of a row
    INNER: tl.constexpr,  # and to that of an entry; 0 where entries and rows follow one another
    ALIKE: tl.constexpr,  # whether the state lies as the weight does, without padding
):
    """Products of x with itself, the gradient and the momentum; NaN with a gradient that is not finite."""
    weight = own_row(chunks)
    row, piece = row_and_piece(wide, weight, own_block(chunks))
    _, place, slot, inside = piece_places(table, weight, row, piece, PIECE, OUTER, INNER, ALIKE)
    x, _ = _position(table, weight, row, place, slot, inside, STORED, weight_type)
    grad, bad = _gradient(grads, weight, place, inside, MAXIMIZE, grad_type)
    m = _state(table, weight, MOMENTUM, slot, inside).to(tl.float64)
    x = x.to(tl.float64)
    tl.store(flags + number_of(table, weight, FLAG), 1, mask=bad)
    to = partials + piece_number(wide, weight, row, piece) * PARTS_OF_A_PIECE
    tl.store(to, tl.sum(x * x, 0))
    tl.store(to + 1, tl.where(bad, float("nan"), tl.sum(x * grad.to(tl.float64), 0)))
    tl.store(to + 2, tl.sum(x * m, 0))


@triton.jit
def _slack(table, weight, row):
    """The slack of a row on the unit sphere, and where it lies in the state."""
    slot = slack_slot(table, weight, row)
    x = tl.load(address_of(table, weight, POSITION, tl.float32) + slot) * (
        1.0 / radius_of(table, weight, row)
    )
    return x, slot


@triton.jit
def wide_means(
    table,
    wide,
    chunks,  # int32: a ChunkRow for each program, whose block is a row
    partials,
    coefficients,  # float64 (rows, 16)
    SLACK: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    """The products of whole rows."""
    weight = own_row(chunks)
    row = own_block(chunks)
    sums = total(partials, wide, weight, row, AT_ONCE)
    xx, xg, xm = at(sums, 0, 0), at(sums, 0, 1), at(sums, 0, 2)
    if SLACK:
        x, slot = _slack(table, weight, row)
        x = x.to(tl.float64)
        xx += x * x
        xm += x * tl.load(address_of(table, weight, MOMENTUM, tl.float32) + slot).to(tl.float64)
    to = coefficients + row_number(wide, weight, row) * PARTS_OF_A_PIECE
    tl.store(to, xx)
    tl.store(to + 1, xg)
    tl.store(to + 2, xm)


@triton.jit
def _averaged(x, grad, m, v, xx, xg, xm, new, second):
    """Averages of tangent gradients, and of their squares."""
    g = (grad.to(tl.float64) - (xg / xx) * x.to(tl.float64)).to(tl.float32)
    normal = ((1.0 - new.to(tl.float64)) * xm / xx) * x.to(tl.float64)
    m = ((m + new * (g - m)).to(tl.float64) - normal).to(tl.float32)
    return m, squares(v, g, second)


@triton.jit
def wide_average(
    table,
    wide,
    grads,
    chunks,  # int32: a ChunkRow for each program, whose block is a piece of a row
    corrections,  # float32: two for each parameter
    rates,  # float32: one AdamRow, or one for each weight
    partials,
    coefficients,
    VARIES: tl.constexpr,  # whether there is a row of rates for each weight
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
    """Write the averages of a piece, and its part in the products of d: with x and itself, of m with both."""
    weight = own_row(chunks)
    row, piece = row_and_piece(wide, weight, own_block(chunks))
    _, decay, new, second, eps = numbers_of(rates, weight, VARIES)
    scale, root_scale = corrections_of(corrections, number_of(table, weight, FLAG))
    of = coefficients + row_number(wide, weight, row) * PARTS_OF_A_PIECE
    xx, xg, xm = tl.load(of), tl.load(of + 1), tl.load(of + 2)
    _, place, slot, inside = piece_places(table, weight, row, piece, PIECE, OUTER, INNER, ALIKE)
    x, theta = _position(table, weight, row, place, slot, inside, STORED, weight_type)
    grad, _ = _gradient(grads, weight, place, inside, MAXIMIZE, grad_type)
    m = _state(table, weight, MOMENTUM, slot, inside)
    v = _state(table, weight, SECOND, slot, inside)
    m, v = _averaged(x, grad, m, v, xx, xg, xm, new, second)
    d = scale * quotient(m, v, root_scale, eps)
    if SLACK:  # without it decay is normal
        d += decay * theta
    inside = where_finite(inside, xg)
    tl.store(address_of(table, weight, MOMENTUM, tl.float32) + slot, m, mask=inside)
    tl.store(address_of(table, weight, SECOND, tl.float32) + slot, v, mask=inside)
    x, d, m = x.to(tl.float64), d.to(tl.float64), m.to(tl.float64)
    to = partials + piece_number(wide, weight, row, piece) * PARTS_OF_A_PIECE
    tl.store(to + 4, tl.sum(x * d, 0))
    tl.store(to + 5, tl.sum(d * d, 0))
    tl.store(to + 6, tl.sum(x * m, 0))
    tl.store(to + 7, tl.sum(d * m, 0))


@triton.jit
def wide_turn(
    table,
    wide,
    chunks,  # int32: a ChunkRow for each program, whose block is a row
    corrections,
    rates,
    partials,
    coefficients,
    VARIES: tl.constexpr,
    SLACK: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    """Where a row goes, and its slack."""
    weight = own_row(chunks)
    row = own_block(chunks)
    lr, _, new, second, eps = numbers_of(rates, weight, VARIES)
    scale, root_scale = corrections_of(corrections, number_of(table, weight, FLAG))
    of = coefficients + row_number(wide, weight, row) * PARTS_OF_A_PIECE
    xx, xg, old_xm = tl.load(of), tl.load(of + 1), tl.load(of + 2)
    sums = total(partials, wide, weight, row, AT_ONCE)
    xd, dd, xm, dm = at(sums, 1, 0), at(sums, 1, 1), at(sums, 1, 2), at(sums, 1, 3)
    if SLACK:
        x, slot = _slack(table, weight, row)
        momentum_at = address_of(table, weight, MOMENTUM, tl.float32) + slot
        second_at = address_of(table, weight, SECOND, tl.float32) + slot
        m, v = _averaged(x, x * 0.0, tl.load(momentum_at), tl.load(second_at), xx, xg, old_xm, new, second)
        d = (scale * quotient(m, v, root_scale, eps)).to(tl.float64)
        x, m64 = x.to(tl.float64), m.to(tl.float64)
        xd, dd, xm, dm = xd + x * d, dd + d * d, xm + x * m64, dm + d * m64

    r = radius_of(table, weight, row).to(tl.float64)
    s = tl.sqrt(tl.maximum(dd - xd * xd / xx, 0.0))
    phi = lr.to(tl.float64) * s / r
    # sin(phi) / phi, by its series near 0
    ahead = tl.where(phi > 1e-8, tl.sin(phi) / tl.where(phi > 1e-8, phi, 1.0), 1.0)
    ahead = ahead * lr.to(tl.float64) / r
    of_x = tl.cos(phi) / tl.sqrt(xx) + ahead * xd / xx
    length = tl.sqrt(of_x * of_x * xx - 2.0 * of_x * ahead * xd + ahead * ahead * dd)
    lost = length <= 0
    of_x = tl.where(lost, 1.0 / tl.sqrt(xx), of_x / tl.where(lost, 1.0, length))
    of_d = tl.where(lost, 0.0, -ahead / tl.where(lost, 1.0, length))
    normal = of_x * xm + of_d * dm
    tl.store(of + 3, tl.where(xg == xg, of_x, xg))
    tl.store(of + 4, of_d)
    tl.store(of + 5, normal)
    if SLACK:
        finite = xg == xg
        x_new = of_x * x + of_d * d
        tl.store(second_at, v, mask=finite)
        tl.store(momentum_at, (m64 - normal * x_new).to(tl.float32), mask=finite)
        position_at = address_of(table, weight, POSITION, tl.float32) + slot
        tl.store(position_at, (r * x_new).to(tl.float32), mask=finite)


@triton.jit
def wide_walk(
    table,
    wide,
    chunks,  # int32: a ChunkRow for each program, whose block is a piece of a row
    corrections,
    rates,
    coefficients,
    VARIES: tl.constexpr,
    SLACK: tl.constexpr,
    STORED: tl.constexpr,
    weight_type: tl.constexpr,
    PIECE: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    ALIKE: tl.constexpr,
):
    """Write the position of a piece, and its momentum made tangent there."""
    weight = own_row(chunks)
    row, piece = row_and_piece(wide, weight, own_block(chunks))
    _, decay, _, _, eps = numbers_of(rates, weight, VARIES)
    scale, root_scale = corrections_of(corrections, number_of(table, weight, FLAG))
    of = coefficients + row_number(wide, weight, row) * PARTS_OF_A_PIECE
    of_x, of_d, normal = tl.load(of + 3), tl.load(of + 4), tl.load(of + 5)
    _, place, slot, inside = piece_places(table, weight, row, piece, PIECE, OUTER, INNER, ALIKE)
    x, theta = _position(table, weight, row, place, slot, inside, STORED, weight_type)
    m = _state(table, weight, MOMENTUM, slot, inside)
    v = _state(table, weight, SECOND, slot, inside)
    d = scale * quotient(m, v, root_scale, eps)
    if SLACK:
        d += decay * theta
    inside = where_finite(inside, of_x)
    x_new = of_x * x.to(tl.float64) + of_d * d.to(tl.float64)
    m = (m.to(tl.float64) - normal * x_new).to(tl.float32)
    q = (radius_of(table, weight, row).to(tl.float64) * x_new).to(tl.float32)
    tl.store(address_of(table, weight, MOMENTUM, tl.float32) + slot, m, mask=inside)
    if STORED:
        tl.store(address_of(table, weight, POSITION, tl.float32) + slot, q, mask=inside)
    tl.store(address_of(table, weight, WEIGHT, weight_type) + place, q.to(weight_type), mask=inside)
