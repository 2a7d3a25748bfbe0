"""The underdamped step of free and circle weights."""

import triton
import triton.language as tl

from colangevin.kernels.chunks import own_block, own_row
from colangevin.kernels.elementwise.circles import read_circle
from colangevin.kernels.elementwise.rows import (
    FLAG,
    MOMENTUM,
    POSITION,
    WEIGHT,
    block_at,
    block_normals,
    count_step,
    length_from,
    noise_key,
    radii_of,
    read_gradient,
    reals_of,
    row_of,
)
from colangevin.kernels.elementwise.squares import read_square, stopped
from colangevin.kernels.letters import LETTER_A, LETTER_B
from colangevin.kernels.noise import draw_key
from colangevin.kernels.rates import DECAY, DRIFT, KICK, NOISE_SCALE, rates_of
from colangevin.kernels.trigonometry import sine, wrap

__all__ = ["underdamped"]

_LIMIT = tl.constexpr(4.0e9)  # of an angular velocity: the fourth root of the largest float32


@triton.jit
def underdamped(
    table,  # int64: a LineRow for each weight, which is one copy of a parameter
    grads,  # int64 (weights,): addresses of the gradients
    reals,  # float32: LineReals of each weight
    chunks,  # int32: a ChunkRow for each program
    flags,  # int32 (parameters,): set where a gradient is not finite
    rates,  # float32: one RateRow, or one for each weight
    LETTERS: tl.constexpr,  # of the splitting, encoded
    COUNT: tl.constexpr,  # of letters
    MOVES: tl.constexpr,  # whether there is an A among them
    DRAW: tl.constexpr,  # how many Os of the step came in launches before
    COUNTS: tl.constexpr,  # whether this launch adds 1 to the step counts
    NOISE: tl.constexpr,
    PARTS: tl.constexpr,  # whether weights are parts of others, whose noise they draw
    DIGITS: tl.constexpr,  # how many lead from places in memory to numbers of elements; 0 where they agree
    SQUARES: tl.constexpr,  # whether every weight is the square of its position
    RADII: tl.constexpr,  # whether each element has a radius of its own
    VARIES: tl.constexpr,  # whether there is a row of rates for each weight
    TRUSTED: tl.constexpr,  # whether torch counts no write of a weight since the last step
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    ALIGNED: tl.constexpr,  # whether blocks begin at 16 bytes and lengths are multiples of 4
    BLOCK: tl.constexpr,
):
    """O: p <- c p + d R, B: p <- p - b G, A: q <- q + a p, on lines and on circles.

    On a circle q is the angle, p the angular velocity and G the gradient with respect to the angle. A weight
    whose gradient is not finite stays as it is.
    """
    weight = own_row(chunks)
    start = own_block(chunks) * BLOCK
    row = row_of(table, weight)
    weight_at = block_at(tl.load(row + WEIGHT), start, weight_type, ALIGNED)
    grad_at = block_at(tl.load(grads + weight), start, grad_type, ALIGNED)
    momentum_at = block_at(tl.load(row + MOMENTUM), start, tl.float32, ALIGNED)
    position_at = block_at(tl.load(row + POSITION), start, tl.float32, ALIGNED)
    r, decay = reals_of(reals, weight)
    rates = rates_of(rates, weight, VARIES)
    a, b = tl.load(rates + DRIFT), tl.load(rates + KICK)
    c, d = tl.load(rates + DECAY), tl.load(rates + NOISE_SCALE)

    i = tl.arange(0, BLOCK)
    length = length_from(row, start, ALIGNED)
    inside = i < length
    grad, finite = read_gradient(grad_at, i, inside, flags + tl.load(row + FLAG), MAXIMIZE)
    old = tl.load(momentum_at + i, mask=inside, other=0.0)

    radii = radii_of(row, r, start, i, inside, RADII, ALIGNED)
    unit = 1.0 / radii
    if SQUARES:
        theta, beta = read_square(weight_at, position_at, i, inside, TRUSTED, weight_type)
        force = 2.0 * beta * (grad + decay * theta)
    elif r > 0:
        theta, beta, _, cosine = read_circle(weight_at, position_at, i, inside, radii, TRUSTED, weight_type)
        force = cosine * (grad + decay * theta) * unit
    else:
        # without an A a free weight is read for its decay alone
        asked_for = inside if MOVES else i < tl.where(decay != 0, length, 0)
        theta = tl.load(weight_at + i, mask=asked_for, other=0.0).to(tl.float32)
        beta = theta
        force = grad + decay * theta
    q = beta

    p = old
    if NOISE:
        key = noise_key(row)
    draw = DRAW
    for letter in tl.static_range(COUNT):
        if (LETTERS >> (2 * letter)) & 3 == LETTER_A:
            q = q + a * p
        elif (LETTERS >> (2 * letter)) & 3 == LETTER_B:
            p = p - b * force
            if SQUARES:
                p = tl.minimum(tl.maximum(p, -_LIMIT * _LIMIT), _LIMIT * _LIMIT)
            elif r > 0:
                p = tl.minimum(tl.maximum(p, -_LIMIT), _LIMIT)
        else:
            p = c * p
            if NOISE:
                p = p + d * unit * block_normals(draw_key(key, draw), row, start, BLOCK, PARTS, DIGITS)
            draw += 1

    tl.store(momentum_at + i, tl.where(finite, p, old), mask=inside)
    if SQUARES:
        q = tl.where(finite, stopped(q, weight_type), beta)
        tl.store(position_at + i, q, mask=inside)
        q = q * q
    elif r > 0:
        q = tl.where(finite, wrap(wrap(q)), beta)
        tl.store(position_at + i, q, mask=inside)
        q = radii * sine(q)
    q = tl.where(finite, q, theta)
    moved = inside if MOVES or SQUARES else i < tl.where(r > 0, length, 0)
    tl.store(weight_at + i, q.to(weight_type), mask=moved)
    if COUNTS:
        count_step(row, start)
