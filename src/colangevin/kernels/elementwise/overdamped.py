"""The overdamped step of free and circle weights."""

import triton
import triton.language as tl

from colangevin.kernels.chunks import own_block, own_row
from colangevin.kernels.elementwise.circles import read_circle
from colangevin.kernels.elementwise.rows import (
    FLAG,
    POSITION,
    WEIGHT,
    block_at,
    block_normals,
    count_step,
    elements_of,
    length_from,
    noise_key,
    radii_of,
    read_gradient,
    reals_of,
    row_of,
)
from colangevin.kernels.elementwise.squares import read_square, stopped
from colangevin.kernels.noise import draw_key, normals
from colangevin.kernels.rates import KICK, NOISE_SCALE, rates_of
from colangevin.kernels.trigonometry import atan2, sine

__all__ = ["overdamped"]


@triton.jit
def overdamped(
    table,
    grads,
    reals,
    chunks,
    flags,
    rates,
    COUNTS: tl.constexpr,
    NOISE: tl.constexpr,
    PARTS: tl.constexpr,
    DIGITS: tl.constexpr,
    SQUARES: tl.constexpr,
    RADII: tl.constexpr,
    VARIES: tl.constexpr,
    TRUSTED: tl.constexpr,
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Euler-Maruyama on lines and, with projection, on circles. Arguments as in ``underdamped``."""
    weight = own_row(chunks)
    start = own_block(chunks) * BLOCK
    row = row_of(table, weight)
    weight_at = block_at(tl.load(row + WEIGHT), start, weight_type, ALIGNED)
    grad_at = block_at(tl.load(grads + weight), start, grad_type, ALIGNED)
    position_at = block_at(tl.load(row + POSITION), start, tl.float32, ALIGNED)
    r, decay = reals_of(reals, weight)
    rates = rates_of(rates, weight, VARIES)
    h, sigma = tl.load(rates + KICK), tl.load(rates + NOISE_SCALE)

    i = tl.arange(0, BLOCK)
    inside = i < length_from(row, start, ALIGNED)
    grad, finite = read_gradient(grad_at, i, inside, flags + tl.load(row + FLAG), MAXIMIZE)
    if NOISE:
        key = draw_key(noise_key(row), 0)
    radii = radii_of(row, r, start, i, inside, RADII, ALIGNED)
    if SQUARES:
        theta, old = read_square(weight_at, position_at, i, inside, TRUSTED, weight_type)
        q = old - h * (2.0 * old * (grad + decay * theta))
        if NOISE:
            q = q + sigma * block_normals(key, row, start, BLOCK, PARTS, DIGITS)
        q = tl.where(finite, stopped(q, weight_type), old)
        tl.store(position_at + i, q, mask=inside)
        q = q * q
    elif r > 0:
        # x and y in units of r: the square of a gradient does not overflow
        unit = 1.0 / radii
        theta, old, x, y = read_circle(weight_at, position_at, i, inside, radii, TRUSTED, weight_type)
        x = x - h * ((grad + decay * theta) * unit)
        if NOISE:
            along_theta, along_xi = normals(key, elements_of(row, start, BLOCK, PARTS, DIGITS))
            x = x + sigma * unit * along_theta
            y = y + sigma * unit * along_xi
        beta = tl.where(finite, atan2(x, y), old)
        tl.store(position_at + i, beta, mask=inside)
        q = radii * sine(beta)
    else:
        theta = tl.load(weight_at + i, mask=inside, other=0.0).to(tl.float32)
        q = theta - h * (grad + decay * theta)
        if NOISE:
            q = q + sigma * block_normals(key, row, start, BLOCK, PARTS, DIGITS)
    q = tl.where(finite, q, theta)
    tl.store(weight_at + i, q.to(weight_type), mask=inside)
    if COUNTS:
        count_step(row, start)
