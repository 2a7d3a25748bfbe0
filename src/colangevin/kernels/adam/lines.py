"""Adam's step of free and circle weights."""

import triton
import triton.language as tl

from colangevin.kernels.adam.averages import corrections_of, numbers_of, quotient, squares
from colangevin.kernels.chunks import own_block, own_row
from colangevin.kernels.elementwise.circles import read_circle
from colangevin.kernels.elementwise.rows import (
    FLAG,
    MOMENTUM,
    POSITION,
    SECOND,
    WEIGHT,
    block_at,
    length_from,
    radii_of,
    read_gradient,
    reals_of,
    row_of,
)
from colangevin.kernels.elementwise.squares import read_square, stopped
from colangevin.kernels.trigonometry import sine, wrap

__all__ = ["adam_lines"]


@triton.jit
def adam_lines(
    table,  # int64: a LineRow for each weight, which is one copy of a parameter
    grads,  # int64 (weights,): addresses of the gradients
    reals,  # float32: LineReals of each weight
    chunks,  # int32: a ChunkRow for each program
    flags,  # int32 (parameters,): set where a gradient is not finite
    corrections,  # float32: two for each parameter
    rates,  # float32: one AdamRow, or one for each weight
    SQUARES: tl.constexpr,  # whether every weight is the square of its position
    RADII: tl.constexpr,  # whether each element has a radius of its own
    VARIES: tl.constexpr,  # whether there is a row of rates for each weight
    TRUSTED: tl.constexpr,  # whether torch counts no write of a weight since the last step
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    state_type: tl.constexpr,
    ALIGNED: tl.constexpr,  # whether blocks begin at 16 bytes and lengths are multiples of 4
    BLOCK: tl.constexpr,
):
    """One step of every element. An element whose gradient is not finite stays as it is.

    On a circle the momentum is that of the angle, and squares and quotients are those of the arc.
    """
    weight = own_row(chunks)
    start = own_block(chunks) * BLOCK
    row = row_of(table, weight)
    weight_at = block_at(tl.load(row + WEIGHT), start, weight_type, ALIGNED)
    grad_at = block_at(tl.load(grads + weight), start, grad_type, ALIGNED)
    momentum_at = block_at(tl.load(row + MOMENTUM), start, state_type, ALIGNED)
    second_at = block_at(tl.load(row + SECOND), start, state_type, ALIGNED)
    position_at = block_at(tl.load(row + POSITION), start, tl.float32, ALIGNED)
    r = reals_of(reals, weight)[0]
    lr, decay, first, second, eps = numbers_of(rates, weight, VARIES)
    flag = tl.load(row + FLAG)
    scale, root_scale = corrections_of(corrections, flag)

    i = tl.arange(0, BLOCK)
    inside = i < length_from(row, start, ALIGNED)
    grad, finite = read_gradient(grad_at, i, inside, flags + flag, MAXIMIZE)
    old_m = tl.load(momentum_at + i, mask=inside, other=0.0).to(tl.float32)
    old_v = tl.load(second_at + i, mask=inside, other=0.0).to(tl.float32)
    radii = radii_of(row, r, start, i, inside, RADII, ALIGNED)
    if SQUARES:
        theta, root = read_square(weight_at, position_at, i, inside, TRUSTED, weight_type)
        g = 2.0 * root * grad
        m = old_m + first * (g - old_m)
        v = squares(old_v, g, second)
        d = scale * quotient(m, v, root_scale, eps) + decay * (2.0 * root * theta)
        q = tl.where(finite, stopped(root - lr * d, weight_type), root)
        tl.store(position_at + i, q, mask=inside)
        q = q * q
    elif r > 0:
        unit = 1.0 / radii
        theta, beta, _, cosine = read_circle(weight_at, position_at, i, inside, radii, TRUSTED, weight_type)
        g = cosine * grad * unit
        m = old_m + first * (g - old_m)
        v = squares(old_v, g * radii, second)
        d = quotient(m * radii, v, root_scale, eps)
        arc = lr * (scale * d + decay * cosine * theta)
        angle = tl.where(finite, wrap(beta - arc * unit), beta)
        tl.store(position_at + i, angle, mask=inside)
        q = radii * sine(angle)
    else:
        theta = tl.load(weight_at + i, mask=inside, other=0.0).to(tl.float32)
        m = old_m + first * (grad - old_m)
        v = squares(old_v, grad, second)
        q = theta - lr * decay * theta - lr * scale * quotient(m, v, root_scale, eps)
    q = tl.where(finite, q, theta)
    tl.store(momentum_at + i, tl.where(finite, m, old_m).to(state_type), mask=inside)
    tl.store(second_at + i, tl.where(finite, v, old_v).to(state_type), mask=inside)
    tl.store(weight_at + i, q.to(weight_type), mask=inside)
