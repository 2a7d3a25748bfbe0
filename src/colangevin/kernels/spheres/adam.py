"""Adam's step of rows on spheres."""

import triton
import triton.language as tl

from colangevin.kernels.adam.averages import corrections_of, numbers_of, quotient, squares
from colangevin.kernels.chunks import own_block, own_row
from colangevin.kernels.spheres.tiles import (
    FLAG,
    MOMENTUM,
    POSITION,
    SECOND,
    WIDTH_OF_TABLE,
    load,
    normalise,
    origins,
    placed,
    settled,
    sizes,
    store,
    tangent,
)
from colangevin.kernels.trigonometry import sincos, wrap

__all__ = ["adam_sphere"]

_LIMIT = tl.constexpr(1.0e15)  # of a gradient, so that sums of squares over a row do not overflow


@triton.jit
def adam_sphere(
    table,  # int64: a SphereRow for each weight, which is one copy of a parameter
    grads,  # int64 (weights,): addresses of the gradients
    chunks,  # int32: a ChunkRow for each program, whose block is of ROWS rows
    flags,  # int32 (parameters,): set where a gradient is not finite
    corrections,  # float32: two for each parameter
    rates,  # float32: one AdamRow, or one for each weight
    VARIES: tl.constexpr,  # whether there is a row of rates for each weight
    SLACK: tl.constexpr,
    STORED: tl.constexpr,  # whether the position is kept apart from the weight
    SQUARES: tl.constexpr,  # whether the entries of a weight are the squares of those of its position
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    ALIGNED: tl.constexpr,  # whether rows begin at multiples of four entries
    OUTER: tl.constexpr,  # how many digits lead to the place of a row
    INNER: tl.constexpr,  # and to that of an entry; 0 where entries and rows follow one another
    TURNED: tl.constexpr,  # whether neighbours in memory are entries of neighbouring rows
    ALIKE: tl.constexpr,  # whether the state lies as the weight does, without padding
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,  # a power of 2, not less than the entries of a row of the position
):
    """One step of every row. A row whose gradient is not finite stays as it is."""
    weight = own_row(chunks)
    line = table + weight * WIDTH_OF_TABLE
    weight_at, grad_at, radii_at = origins(line, grads, weight, weight_type, grad_type, ALIGNED)
    momentum_at = tl.load(line + MOMENTUM).to(tl.pointer_type(tl.float32))
    second_at = tl.load(line + SECOND).to(tl.pointer_type(tl.float32))
    position_at = tl.load(line + POSITION).to(tl.pointer_type(tl.float32))
    if ALIGNED:
        momentum_at, second_at = tl.multiple_of(momentum_at, 16), tl.multiple_of(second_at, 16)
        position_at = tl.multiple_of(position_at, 16)
    rows, n, stride = sizes(line, ALIGNED)
    lr, decay, new, second, eps = numbers_of(rates, weight, VARIES)
    flag = tl.load(line + FLAG)
    scale, root_scale = corrections_of(corrections, flag)

    first = own_block(chunks) * ROWS
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    exists = row < rows - first
    here = exists & (column < n)
    place, inside = placed(line, first, rows, n, ROWS, WIDTH, OUTER, INNER, TURNED)
    if ALIKE:
        slot, held = place, inside
    else:
        slot = first * stride + (row * stride + column)
        held = exists & (column < stride)  # the padding too, which is 0
    r = tl.load(radii_at + first + row, mask=exists, other=1.0)
    unit = 1.0 / r
    theta = load(weight_at, place, inside, TURNED).to(tl.float32)
    raw = load(grad_at, place, inside, TURNED).to(tl.float32)
    old_m = load(momentum_at, slot, held, TURNED and ALIKE)
    old_v = load(second_at, slot, held, TURNED and ALIKE)
    q = theta
    if STORED:
        q = load(position_at, slot, held, TURNED and ALIKE)
    x, finite = settled(theta, raw, q, unit, here, exists, column, n, SLACK, STORED, SQUARES, weight_type)
    tl.store(flags + flag + row * 0, 1, mask=~finite & exists)
    grad = tl.minimum(tl.maximum(tl.where(finite, raw, 0.0), -_LIMIT), _LIMIT)
    if MAXIMIZE:
        grad = -grad

    if SQUARES:
        grad = 2.0 * x * grad
    g = tangent(x, grad)
    m = tangent(x, old_m + new * (g - old_m))
    v = squares(old_v, g, second)
    store(second_at, slot, tl.where(finite, v, old_v), held, TURNED and ALIKE)
    d = scale * quotient(m, v, root_scale, eps)
    if SQUARES:
        d += decay * (2.0 * x * theta)
    elif SLACK:  # without it decay is normal
        d += decay * theta
    d = tangent(x, d)
    s = tl.sqrt(tl.sum(d * d, 1))[:, None]
    phi = lr * s * unit
    sine, cosine = sincos(wrap(wrap(phi)))
    # sin(phi) / phi, by its series near 0
    ahead = tl.where(phi > 1e-4, sine / tl.where(phi > 1e-4, phi, 1.0), 1.0 - phi * phi / 6.0)
    x_new = normalise(cosine * x - (lr * unit) * ahead * d, x)
    # twice: after a long step much of it is normal, and of that one projection leaves what x is off by
    m = tangent(x_new, tangent(x_new, m))
    store(momentum_at, slot, tl.where(finite, m, old_m), held, TURNED and ALIKE)
    q_new = tl.where(finite, r * x_new, q)
    if STORED:
        store(position_at, slot, q_new, held, TURNED and ALIKE)
    if SQUARES:
        q_new = q_new * q_new
    store(weight_at, place, tl.where(finite, q_new, theta).to(weight_type), inside, TURNED)
