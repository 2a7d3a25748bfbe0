"""The Langevin step of rows on spheres."""

import triton
import triton.language as tl

from colangevin.kernels.chunks import own_block, own_row
from colangevin.kernels.letters import LETTER_A, LETTER_B
from colangevin.kernels.noise import copy_key, draw_key, normals_of
from colangevin.kernels.rates import DECAY, DRIFT, KICK, NOISE_SCALE, rates_of
from colangevin.kernels.spheres.tiles import (
    COPY,
    FIRST,
    FLAG,
    MOMENTUM,
    POSITION,
    SEED,
    STEP,
    WIDTH_OF_TABLE,
    WORD,
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

__all__ = ["sphere"]

_LIMIT = tl.constexpr(4.0e9)  # of a kick: the fourth root of the largest float32


@triton.jit
def sphere(
    table,  # int64: a SphereRow for each weight, which is one copy of a parameter
    grads,  # int64 (weights,): addresses of the gradients
    decays,  # float32 (weights,): weight decay
    chunks,  # int32: a ChunkRow for each program, whose block is of ROWS rows
    flags,  # int32 (parameters,): set where a gradient is not finite
    rates,  # float32: one RateRow, or one for each weight
    LETTERS: tl.constexpr,  # of the splitting, encoded; 0 for the overdamped step
    COUNT: tl.constexpr,  # of letters
    NOISE: tl.constexpr,
    VARIES: tl.constexpr,  # whether there is a row of rates for each weight
    PARTS: tl.constexpr,  # whether weights are parts of others, whose noise they draw
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
    """One step of every row. A row whose gradient is not finite stays as it is.

    Rows are moved on the unit sphere, as x = q / r.
    """
    weight = own_row(chunks)
    line = table + weight * WIDTH_OF_TABLE
    weight_at, grad_at, radii_at = origins(line, grads, weight, weight_type, grad_type, ALIGNED)
    momentum_at = tl.load(line + MOMENTUM).to(tl.pointer_type(tl.float32))
    position_at = tl.load(line + POSITION).to(tl.pointer_type(tl.float32))
    if ALIGNED:
        momentum_at, position_at = tl.multiple_of(momentum_at, 16), tl.multiple_of(position_at, 16)
    rows, n, stride = sizes(line, ALIGNED)
    decay = tl.load(decays + weight)
    rates = rates_of(rates, weight, VARIES)
    a, b = tl.load(rates + DRIFT), tl.load(rates + KICK)
    c, d = tl.load(rates + DECAY), tl.load(rates + NOISE_SCALE)

    first = own_block(chunks) * ROWS  # loaded here: up there it costs registers, and an eighth of the speed
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
    number = first + row
    if PARTS:
        number += tl.load(line + FIRST)
    element = number * (n + SLACK) + column
    r = tl.load(radii_at + first + row, mask=exists, other=1.0)
    unit = 1.0 / r
    theta = load(weight_at, place, inside, TURNED).to(tl.float32)
    raw = load(grad_at, place, inside, TURNED).to(tl.float32)
    q = theta
    if STORED:
        q = load(position_at, slot, held, TURNED and ALIKE)
    x, finite = settled(theta, raw, q, unit, here, exists, column, n, SLACK, STORED, SQUARES, weight_type)
    tl.store(flags + tl.load(line + FLAG) + row * 0, 1, mask=~finite & exists)
    grad = tl.where(finite, raw, 0.0)
    if MAXIMIZE:
        grad = -grad
    grad = grad + decay * theta
    if SQUARES:
        grad = 2.0 * x * grad

    if NOISE:
        step = tl.load(tl.load(line + STEP).to(tl.pointer_type(tl.int64)))
        key = copy_key(tl.load(line + SEED), step, tl.load(line + WORD), tl.load(line + COPY))
    if LETTERS == 0:
        x_bar = x - b * (grad * unit)
        if NOISE:
            x_bar += tl.where(column < n + SLACK, d * unit * normals_of(draw_key(key, 0), element), 0.0)
        x_new = normalise(x_bar, x)
    else:
        old = load(momentum_at, slot, held, TURNED and ALIKE)
        p, x_new, draw = old, x, 0
        for letter in tl.static_range(COUNT):
            if (LETTERS >> (2 * letter)) & 3 == LETTER_A:
                s = tl.sqrt(tl.sum(p * p, 1))[:, None]
                phi = a * s * unit
                sine, cosine = sincos(wrap(wrap(phi)))
                # sin(phi) / phi, by its series near 0
                ahead = tl.where(phi > 1e-4, sine / tl.where(phi > 1e-4, phi, 1.0), 1.0 - phi * phi / 6.0)
                x_bar = cosine * x_new + (a * unit) * ahead * p
                p_bar = cosine * p - (s * sine) * x_new
                x_new = normalise(x_bar, x_new)
                p = tangent(x_new, p_bar)
            elif (LETTERS >> (2 * letter)) & 3 == LETTER_B:
                kick = tl.minimum(tl.maximum(b * grad, -_LIMIT), _LIMIT)
                p = tangent(x_new, p - kick)
            else:
                p = c * p
                if NOISE:
                    p = tangent(
                        x_new,
                        p + tl.where(column < n + SLACK, d * normals_of(draw_key(key, draw), element), 0.0),
                    )
                draw += 1
        store(momentum_at, slot, tl.where(finite, p, old), held, TURNED and ALIKE)

    q_new = tl.where(finite, r * x_new, q)
    if STORED:
        store(position_at, slot, q_new, held, TURNED and ALIKE)
    if SQUARES:
        q_new = q_new * q_new
    store(weight_at, place, tl.where(finite, q_new, theta).to(weight_type), inside, TURNED)
