"""Free and circle steps, over- and underdamped: the weights of a whole model in one launch.

A launch reads a table with a row for each weight, so that parameters of any number, size, radius and group go
through one kernel. At temperature 0 it moves 5 words a free weight and 6 a circle weight, 7 where the weight
may have been changed from outside: the angle tells it, so that otherwise it is only written.
"""

import triton
import triton.language as tl

from colangevin.kernels.functions import asin, atan2, extend, mix, normals, sincos, sine, wrap

__all__ = ["overdamped", "underdamped"]

# columns of the table: addresses of weight, momentum, position and step count, number of elements, index
# among the optimizer's parameters, number of the copy, seed, number of the flag
_COLUMNS = tl.constexpr(9)
_EDIT_ULPS = tl.constexpr(4 * 1.1920928955078125e-07)  # as Circle.reconcile
_TINY = tl.constexpr(1.1754943508222875e-38)
_LIMIT = tl.constexpr(4.0e9)  # of an angular velocity: the fourth root of the largest float32
_PI = tl.constexpr(3.141592653589793)
_LINE = tl.constexpr(32)  # weights of a block that are always looked at


@triton.jit
def _noise_key(row):
    """Key of a weight's noise in this step: seed, step, parameter, copy, segment 0."""
    key = mix(tl.load(row + 7).to(tl.uint64) + 0x9E3779B97F4A7C15)
    step = tl.load(tl.load(row + 3).to(tl.pointer_type(tl.int64)))
    key = extend(key, step)
    key = extend(key, tl.load(row + 5))
    key = extend(key, tl.load(row + 6))
    return extend(key, step * 0)


@triton.jit
def _count_step(row, start):
    """One more step, said by the program that has a parameter's first element."""
    if (start == 0) & (tl.load(row + 6) == 0):
        count = tl.load(row + 3).to(tl.pointer_type(tl.int64))
        tl.store(count, tl.load(count) + 1)


@triton.jit
def _block(address, start, dtype: tl.constexpr, ALIGNED: tl.constexpr):
    """Where a program's block of a tensor begins."""
    pointer = address.to(tl.pointer_type(dtype)) + start
    if ALIGNED:
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def _length(row, start, ALIGNED: tl.constexpr):
    """How many elements there are from a block on."""
    length = tl.load(row + 4) - start
    if ALIGNED:
        length = tl.multiple_of(length, 4)
    return length


@triton.jit
def _read_gradient(grad_at, i, inside, flag, MAXIMIZE: tl.constexpr):
    """The gradient, and where it is finite; elsewhere it counts as nothing."""
    raw = tl.load(grad_at + i, mask=inside, other=0.0).to(tl.float32)
    finite = tl.abs(raw) < float("inf")
    tl.store(flag + i * 0, 1, mask=~finite)
    grad = tl.where(finite, raw, 0.0)
    if MAXIMIZE:
        grad = -grad
    return grad, finite


@triton.jit
def _edited(theta, x, r, weight_type: tl.constexpr):
    """Where a weight is not r x, that of the stored angle."""
    if weight_type == tl.float32:
        return tl.abs(theta - r * x) > tl.abs(theta) * _EDIT_ULPS + _TINY
    else:
        return theta != (r * x).to(weight_type).to(tl.float32)


@triton.jit
def _read_circle(weight_at, position_at, i, inside, r, TRUSTED: tl.constexpr, weight_type: tl.constexpr):
    """Weight, angle, sine and cosine of a block, lifted anew where the weight is not that of the angle."""
    beta = tl.load(position_at + i, mask=inside, other=0.0)
    x, y = sincos(beta)
    theta = (r * x).to(weight_type).to(tl.float32)
    # whoever writes past torch writes more than one weight: the first ones of a block tell
    looked_at = inside
    if TRUSTED:
        looked_at = inside & (i < _LINE)
    seen = tl.load(weight_at + i, mask=looked_at, other=0.0).to(tl.float32)
    edited = looked_at & _edited(seen, x, r, weight_type)
    if tl.max(edited.to(tl.int32), 0) > 0:
        theta = tl.load(weight_at + i, mask=inside, other=0.0).to(tl.float32)
        edited = inside & _edited(theta, x, r, weight_type)
        behind = y < 0  # xi < 0, more than a right angle from the slack axis
        x = tl.where(edited, tl.minimum(tl.maximum(theta / r, -1.0), 1.0), x)
        lifted = asin(x)
        lifted = tl.where(behind, tl.where(lifted < 0, -_PI, _PI) - lifted, lifted)
        flat = tl.sqrt(1.0 - x * x)
        beta = tl.where(edited, lifted, beta)
        y = tl.where(edited, tl.where(behind, -flat, flat), y)
    return theta, beta, x, y


@triton.jit
def underdamped(
    table,  # int64 (weights, columns)
    grads,  # int64 (weights,): addresses of the gradients
    reals,  # float32 (weights, 2): radius, 0 for a free weight; weight decay
    chunks,  # int32 (programs, 2): row of the table, number of the block in its weight
    flags,  # int32 (parameters,): set where a gradient is not finite
    rates,  # float32: drift a, kick b, decay c, noise scale d of a letter each; a row, or one for each weight
    LETTERS: tl.constexpr,  # of the splitting, two bits each, the first lowest: 1 A, 2 B, 3 O
    COUNT: tl.constexpr,
    MOVES: tl.constexpr,  # whether there is an A
    DRAW: tl.constexpr,  # how many Os of the step came before
    COUNTS: tl.constexpr,  # whether this launch adds 1 to the step counts
    NOISE: tl.constexpr,
    VARIES: tl.constexpr,  # whether there is a row of rates for each weight
    TRUSTED: tl.constexpr,  # whether torch knows of no other that wrote a weight since the last step
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """O: p <- c p + d R, B: p <- p - b G, A: q <- q + a p, on lines and on circles."""
    program = tl.program_id(0)
    weight = tl.load(chunks + 2 * program)
    start = tl.load(chunks + 2 * program + 1).to(tl.int64) * BLOCK
    row = table + weight * _COLUMNS
    weight_at = _block(tl.load(row), start, weight_type, ALIGNED)
    grad_at = _block(tl.load(grads + weight), start, grad_type, ALIGNED)
    momentum_at = _block(tl.load(row + 1), start, tl.float32, ALIGNED)
    position_at = _block(tl.load(row + 2), start, tl.float32, ALIGNED)
    r = tl.load(reals + 2 * weight)
    decay = tl.load(reals + 2 * weight + 1)
    rates += weight * 4 * VARIES
    a, b = tl.load(rates), tl.load(rates + 1)
    c, d = tl.load(rates + 2), tl.load(rates + 3)

    i = tl.arange(0, BLOCK)
    length = _length(row, start, ALIGNED)
    inside = i < length
    flag = flags + tl.load(row + 8)
    grad, finite = _read_gradient(grad_at, i, inside, flag, MAXIMIZE)
    old = tl.load(momentum_at + i, mask=inside, other=0.0)

    unit = 1.0
    if r > 0:
        unit = 1.0 / r
        theta, beta, _, cosine = _read_circle(weight_at, position_at, i, inside, r, TRUSTED, weight_type)
        force = cosine * (grad + decay * theta) * unit
    else:
        asked_for = inside if MOVES else i < tl.where(decay != 0, length, 0)
        theta = tl.load(weight_at + i, mask=asked_for, other=0.0).to(tl.float32)
        beta = theta
        force = grad + decay * theta
    q = beta

    p = old
    if NOISE:
        key = _noise_key(row)
    draw = DRAW
    for letter in tl.static_range(COUNT):
        if (LETTERS >> (2 * letter)) & 3 == 1:
            q = q + a * p
        elif (LETTERS >> (2 * letter)) & 3 == 2:
            p = p - b * force
            if r > 0:
                p = tl.minimum(tl.maximum(p, -_LIMIT), _LIMIT)
        else:
            p = c * p
            if NOISE:
                counter = start // 2 + tl.arange(0, BLOCK // 2)
                one, two = normals(extend(key, weight * 0 + draw), counter)
                p = p + d * unit * tl.interleave(one, two)
            draw += 1

    tl.store(momentum_at + i, tl.where(finite, p, old), mask=inside)
    if r > 0:
        q = tl.where(finite, wrap(wrap(q)), beta)
        tl.store(position_at + i, q, mask=inside)
        q = r * sine(q)
    q = tl.where(finite, q, theta)
    moved = inside if MOVES else i < tl.where(r > 0, length, 0)
    tl.store(weight_at + i, q.to(weight_type), mask=moved)
    if COUNTS:
        _count_step(row, start)


@triton.jit
def overdamped(
    table,
    grads,
    reals,
    chunks,
    flags,
    rates,  # float32: -, step h, -, noise scale sigma
    COUNTS: tl.constexpr,
    NOISE: tl.constexpr,
    VARIES: tl.constexpr,
    TRUSTED: tl.constexpr,
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    grad_type: tl.constexpr,
    ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Euler-Maruyama on lines and, with projection, on circles; arguments as in :func:`underdamped`."""
    program = tl.program_id(0)
    weight = tl.load(chunks + 2 * program)
    start = tl.load(chunks + 2 * program + 1).to(tl.int64) * BLOCK
    row = table + weight * _COLUMNS
    weight_at = _block(tl.load(row), start, weight_type, ALIGNED)
    grad_at = _block(tl.load(grads + weight), start, grad_type, ALIGNED)
    position_at = _block(tl.load(row + 2), start, tl.float32, ALIGNED)
    r = tl.load(reals + 2 * weight)
    decay = tl.load(reals + 2 * weight + 1)
    rates += weight * 4 * VARIES
    h, sigma = tl.load(rates + 1), tl.load(rates + 3)

    i = tl.arange(0, BLOCK)
    inside = i < _length(row, start, ALIGNED)
    flag = flags + tl.load(row + 8)
    grad, finite = _read_gradient(grad_at, i, inside, flag, MAXIMIZE)
    if NOISE:
        key = extend(_noise_key(row), weight * 0)
    if r > 0:
        # in units of r, where the square of a gradient cannot overflow
        unit = 1.0 / r
        theta, old, x, y = _read_circle(weight_at, position_at, i, inside, r, TRUSTED, weight_type)
        x = x - h * ((grad + decay * theta) * unit)
        if NOISE:
            along_theta, along_xi = normals(key, start + i)
            x = x + sigma * unit * along_theta
            y = y + sigma * unit * along_xi
        beta = tl.where(finite, atan2(x, y), old)
        tl.store(position_at + i, beta, mask=inside)
        q = r * sine(beta)
    else:
        theta = tl.load(weight_at + i, mask=inside, other=0.0).to(tl.float32)
        q = theta - h * (grad + decay * theta)
        if NOISE:
            even, odd = normals(key, start // 2 + tl.arange(0, BLOCK // 2))
            q = q + sigma * tl.interleave(even, odd)
    q = tl.where(finite, q, theta)
    tl.store(weight_at + i, q.to(weight_type), mask=inside)
    if COUNTS:
        _count_step(row, start)
