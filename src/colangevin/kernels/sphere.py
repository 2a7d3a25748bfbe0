"""Sphere steps: the rows of a whole model in one launch.

A program holds whole rows, so that their norms and inner products never leave the chip.

Memory moved at temperature 0: 5 words a weight without slack, 7 with it.
"""

import triton
import triton.language as tl

from colangevin.kernels.chunks import own_block, own_row
from colangevin.kernels.columns import SphereRow, column, width
from colangevin.kernels.letters import LETTER_A, LETTER_B
from colangevin.kernels.noise import copy_key, draw_key, normals_of
from colangevin.kernels.rates import DECAY, DRIFT, KICK, NOISE_SCALE, rates_of
from colangevin.kernels.trigonometry import sincos, wrap

__all__ = ["sphere"]

_WEIGHT = column(SphereRow, "weight")
_MOMENTUM = column(SphereRow, "momentum")
_POSITION = column(SphereRow, "position")
_STEP = column(SphereRow, "step")
_RADII = column(SphereRow, "radii")
_ROWS = column(SphereRow, "rows")
_ENTRIES = column(SphereRow, "entries")
_STRIDE = column(SphereRow, "stride")
_WORD = column(SphereRow, "word")
_COPY = column(SphereRow, "copy")
_SEED = column(SphereRow, "seed")
_FLAG = column(SphereRow, "flag")
_FIRST = column(SphereRow, "first")
_WIDTH = width(SphereRow)
_TINY = tl.constexpr(1.0842021724855044e-19)  # square root of the smallest normal float32
_LIMIT = tl.constexpr(4.0e9)  # of a kick: the fourth root of the largest float32


@triton.jit
def _normalise(x_bar, x):
    """x_bar / |x_bar| for every row; x where x_bar is the centre, to rounding."""
    norm = tl.sqrt(tl.sum(x_bar * x_bar, 1))[:, None]
    lost = norm <= _TINY
    return tl.where(lost, x, x_bar / tl.where(lost, 1.0, norm))


@triton.jit
def _tangent(x, p):
    """The part of p that is orthogonal to x, for every row."""
    return p - tl.sum(x * p, 1)[:, None] * x


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
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    ALIGNED: tl.constexpr,  # whether rows begin at multiples of four entries
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,  # a power of 2, not less than the entries of a row of the position
):
    """One step of every row. A row whose gradient is not finite stays as it is.

    Rows are moved on the unit sphere, as x = q / r.
    """
    weight = own_row(chunks)
    line = table + weight * _WIDTH
    weight_at = tl.load(line + _WEIGHT).to(tl.pointer_type(weight_type))
    grad_at = tl.load(grads + weight).to(tl.pointer_type(grad_type))
    momentum_at = tl.load(line + _MOMENTUM).to(tl.pointer_type(tl.float32))
    position_at = tl.load(line + _POSITION).to(tl.pointer_type(tl.float32))
    radii_at = tl.load(line + _RADII).to(tl.pointer_type(tl.float32))
    rows, n, stride = tl.load(line + _ROWS), tl.load(line + _ENTRIES), tl.load(line + _STRIDE)
    if ALIGNED:
        n, stride = tl.multiple_of(n, 4), tl.multiple_of(stride, 4)
        weight_at, grad_at = tl.multiple_of(weight_at, 16), tl.multiple_of(grad_at, 16)
        momentum_at, position_at = tl.multiple_of(momentum_at, 16), tl.multiple_of(position_at, 16)
    decay = tl.load(decays + weight)
    rates = rates_of(rates, weight, VARIES)
    a, b = tl.load(rates + DRIFT), tl.load(rates + KICK)
    c, d = tl.load(rates + DECAY), tl.load(rates + NOISE_SCALE)

    first = own_block(chunks) * ROWS  # loaded here: up there it costs registers, and an eighth of the speed
    weight_at += first * n
    grad_at += first * n
    momentum_at += first * stride
    position_at += first * stride
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    exists = row < rows - first
    here = exists & (column < n)
    held = exists & (column < stride)  # the padding too, which is 0
    place = row * n + column
    slot = row * stride + column
    number = first + row
    if PARTS:
        number += tl.load(line + _FIRST)
    element = number * (n + SLACK) + column
    r = tl.load(radii_at + first + row, mask=exists, other=1.0)
    unit = 1.0 / r
    theta = tl.load(weight_at + place, mask=here, other=0.0).to(tl.float32)
    raw = tl.load(grad_at + place, mask=here, other=0.0).to(tl.float32)
    bad = tl.abs(raw) >= float("inf")
    bad = (bad | (raw != raw)).to(tl.int32)
    x = theta * unit
    if STORED:
        q = tl.load(position_at + slot, mask=held, other=0.0)
        # one reduction answers both whether a gradient is bad, as 2, and whether a weight was edited, as 1
        changed = here & (q.to(weight_type).to(tl.float32) != theta)
        seen = tl.max(bad * 2 + changed.to(tl.int32), 1)[:, None]
        finite = seen < 2
        if tl.max(tl.max(seen, 1), 0) > 0:
            lifted = x
            if SLACK:
                norm = tl.sqrt(tl.sum(x * x, 1))[:, None]
                xi = tl.sqrt(tl.maximum(1.0 - norm, 0.0) * (1.0 + norm))
                lifted = tl.where((column == n) & exists, tl.where(q < 0, -xi, xi), x)
            edited = tl.max(changed.to(tl.int32), 1)[:, None] > 0
            x = tl.where(edited, _normalise(lifted, lifted), q * unit)
        else:
            x = q * unit
    else:
        finite = tl.max(bad, 1)[:, None] == 0
    tl.store(flags + tl.load(line + _FLAG) + row * 0, 1, mask=~finite & exists)
    grad = tl.where(finite, raw, 0.0)
    if MAXIMIZE:
        grad = -grad
    grad = grad + decay * theta

    if NOISE:
        step = tl.load(tl.load(line + _STEP).to(tl.pointer_type(tl.int64)))
        key = copy_key(tl.load(line + _SEED), step, tl.load(line + _WORD), tl.load(line + _COPY))
    if LETTERS == 0:
        x_bar = x - b * (grad * unit)
        if NOISE:
            x_bar += tl.where(column < n + SLACK, d * unit * normals_of(draw_key(key, 0), element), 0.0)
        x_new = _normalise(x_bar, x)
    else:
        old = tl.load(momentum_at + slot, mask=held, other=0.0)
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
                x_new = _normalise(x_bar, x_new)
                p = _tangent(x_new, p_bar)
            elif (LETTERS >> (2 * letter)) & 3 == LETTER_B:
                kick = tl.minimum(tl.maximum(b * grad, -_LIMIT), _LIMIT)
                p = _tangent(x_new, p - kick)
            else:
                p = c * p
                if NOISE:
                    p = _tangent(
                        x_new,
                        p + tl.where(column < n + SLACK, d * normals_of(draw_key(key, draw), element), 0.0),
                    )
                draw += 1
        tl.store(momentum_at + slot, tl.where(finite, p, old), mask=held)

    q_new = r * x_new
    if STORED:
        tl.store(position_at + slot, q_new, mask=held & finite)
    tl.store(weight_at + place, q_new.to(weight_type), mask=here & finite)
