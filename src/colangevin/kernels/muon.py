"""Muon's steps around Newton-Schulz, elementwise: averages before it, the move after it.

A slice is what has a norm of its own: a row, or the whole matrix. A free matrix is one slice. On a sphere
every projection takes a multiple of q away, and the geodesic along a direction d is a sum of multiples of q
and d. They follow from inner products of a slice's q, m and G, or of q, m' and d. Long slices are cut into
chunks: a program sums over one, and whoever reads a sum adds those of all chunks, always in the same order.
"""

import triton
import triton.language as tl

from colangevin.kernels.columns import MuonReals, MuonRow, column, width
from colangevin.kernels.trigonometry import sincos, wrap

__all__ = ["average", "mean_turn", "overlaps", "turn"]

_WEIGHT = column(MuonRow, "weight")
_MOMENTUM = column(MuonRow, "momentum")
_POSITION = column(MuonRow, "position")
_RADII = column(MuonRow, "radii")
_FLAG = column(MuonRow, "flag")
_ROW = width(MuonRow)
_LR = column(MuonReals, "lr")
_DECAY = column(MuonReals, "weight_decay")
_BETA = column(MuonReals, "momentum")
_SCALE = column(MuonReals, "scale")
_REALS = width(MuonReals)
# inner products of a slice: of q, of z, which is G or d, and of m
_QQ = tl.constexpr(0)
_QZ = tl.constexpr(1)
_ZZ = tl.constexpr(2)
_MZ = tl.constexpr(3)
_QM = tl.constexpr(4)
_SUMS = tl.constexpr(5)
_LIMIT = tl.constexpr(4.0e9)  # of a gradient's entries: the fourth root of the largest float32
_TINY = tl.constexpr(1.1754943508222875e-38)


@triton.jit
def _place(slices, length, chunks, BLOCK: tl.constexpr):
    """Matrix, slice among all slices, offsets in the matrix and which of them exist, of the own chunk."""
    program = tl.program_id(0)
    one = program // chunks
    inside = (program % chunks) * BLOCK + tl.arange(0, BLOCK)
    return one // slices, one, (one % slices).to(tl.int64) * length + inside, inside < length


@triton.jit
def _configuration(row, at, exists, STORED: tl.constexpr, weight_type: tl.constexpr):
    """Entries of q."""
    if STORED:
        return tl.load(tl.load(row + _POSITION).to(tl.pointer_type(tl.float32)) + at, mask=exists, other=0.0)
    weight = tl.load(row + _WEIGHT).to(tl.pointer_type(weight_type))
    return tl.load(weight + at, mask=exists, other=0.0).to(tl.float32)


@triton.jit
def _gradient(address, at, exists, grad_type: tl.constexpr, MAXIMIZE: tl.constexpr, BOUNDED: tl.constexpr):
    """Entries of the gradient of what is minimised; what is not finite is NaN."""
    raw = tl.load(address.to(tl.pointer_type(grad_type)) + at, mask=exists, other=0.0).to(tl.float32)
    raw = tl.where(tl.abs(raw) < float("inf"), raw, float("nan"))
    if MAXIMIZE:
        raw = -raw
    if BOUNDED:  # squares of sums of these are finite
        raw = tl.where(raw > _LIMIT, _LIMIT, tl.where(raw < -_LIMIT, -_LIMIT, raw))
    return raw


@triton.jit
def _sum(sums, one, chunks, which: tl.constexpr, CHUNKS: tl.constexpr):
    """An inner product of a slice."""
    part = tl.arange(0, CHUNKS)
    at = sums + (one * chunks + part) * _SUMS + which
    return tl.sum(tl.load(at, mask=part < chunks, other=0.0), 0)


@triton.jit
def overlaps(
    table,  # int64: a MuonRow for each matrix
    grads,  # int64 (matrices,): addresses of the gradients
    stack,  # with MOVE the directions d
    sums,  # float32 (chunks of all slices, 5)
    slices,  # of a matrix
    length,  # of a slice
    chunks,  # of a slice
    STORED: tl.constexpr,
    MOVE: tl.constexpr,  # whether z is d, else it is G
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    momentum_type: tl.constexpr,
    grad_type: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Inner products over a chunk of q, m and z."""
    matrix, _, at, exists = _place(slices, length, chunks, BLOCK)
    row = table + matrix * _ROW
    q = _configuration(row, at, exists, STORED, weight_type)
    if MOVE:
        size = (slices * length).to(tl.int64)
        z = tl.load(stack + matrix * size + at, mask=exists, other=0.0).to(tl.float32)
    else:
        z = _gradient(tl.load(grads + matrix), at, exists, grad_type, MAXIMIZE, True)
    m = tl.load(tl.load(row + _MOMENTUM).to(tl.pointer_type(momentum_type)) + at, mask=exists, other=0.0)
    mine = sums + tl.program_id(0) * _SUMS
    tl.store(mine + _QQ, tl.sum(q * q, 0))
    tl.store(mine + _QZ, tl.sum(q * z, 0))
    tl.store(mine + _ZZ, tl.sum(z * z, 0))
    tl.store(mine + _MZ, tl.sum(m.to(tl.float32) * z, 0))
    tl.store(mine + _QM, tl.sum(m.to(tl.float32) * q, 0))


@triton.jit
def average(
    table,
    grads,  # int64 (matrices,): addresses of the gradients
    reals,  # float32: a MuonReals for each matrix
    sums,  # of q, G and m; without SPHERE not read
    stack,  # what is orthogonalised: the matrices one after the other
    flags,  # int32 (parameters,): set where a gradient is not finite
    first,  # of the stack's matrices in the tables
    slices,
    length,
    chunks,
    SPHERE: tl.constexpr,
    NESTEROV: tl.constexpr,
    STAY: tl.constexpr,
    STORED: tl.constexpr,
    MAXIMIZE: tl.constexpr,
    weight_type: tl.constexpr,
    momentum_type: tl.constexpr,
    grad_type: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNKS: tl.constexpr,  # a power of 2, not less than chunks
):
    """The next average m', and what it looks ahead to.

    Where a gradient is not finite m stays, and is what it looks ahead to; with STAY that is NaN, which keeps
    the matrix where it is.
    """
    matrix, one, at, exists = _place(slices, length, chunks, BLOCK)
    number = first + matrix
    row = table + number * _ROW
    beta = tl.load(reals + number * _REALS + _BETA)
    G = _gradient(tl.load(grads + number), at, exists, grad_type, MAXIMIZE, SPHERE)
    tl.store(flags + tl.load(row + _FLAG) + at * 0, 1, mask=exists & (G != G))
    m_at = tl.load(row + _MOMENTUM).to(tl.pointer_type(momentum_type)) + at
    m = tl.load(m_at, mask=exists, other=0.0).to(tl.float32)
    new = m + (1.0 - beta) * (G - m)
    if SPHERE:
        q = _configuration(row, at, exists, STORED, weight_type)
        unit = 1.0 / _sum(sums, one, chunks, _QQ, CHUNKS)
        along = _sum(sums, one, chunks, _QZ, CHUNKS) * unit * q  # what of G is normal
        new -= beta * _sum(sums, one, chunks, _QM, CHUNKS) * unit * q + (1.0 - beta) * along
        G -= along
    new = new.to(momentum_type).to(tl.float32)
    ahead = new - (new - G) * (1.0 - beta) if NESTEROV else new
    known = new == new
    tl.store(m_at, tl.where(known, new, m), mask=exists)
    if not STAY:
        ahead = tl.where(known, ahead, m)
    size = (slices * length).to(tl.int64)
    tl.store(stack + matrix * size + at, ahead.to(stack.dtype.element_ty), mask=exists)


@triton.jit
def _tangent_square(sums, at, chunks, CHUNKS: tl.constexpr):
    """Squared lengths of the tangent part of d, for slices whose sums begin at some addresses."""
    part = tl.arange(0, CHUNKS)
    here, known = at[:, None] + part[None, :] * _SUMS, part[None, :] < chunks
    qq = tl.sum(tl.load(here + _QQ, mask=known, other=0.0), 1)
    qd = tl.sum(tl.load(here + _QZ, mask=known, other=0.0), 1)
    dd = tl.sum(tl.load(here + _ZZ, mask=known, other=0.0), 1)
    square = dd - qd * qd / qq
    return tl.where(square < 0, 0.0, square)


@triton.jit
def mean_turn(
    sums,  # of q, d and m'
    means,  # float32 (matrices,): of the lengths of the tangent parts of d
    slices,
    chunks,
    BLOCK: tl.constexpr,  # slices at a time
    CHUNKS: tl.constexpr,
):
    """The mean length of the tangent slices of a direction, by which their angles are divided."""
    matrix = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, slices, BLOCK):
        number = start + tl.arange(0, BLOCK)
        known = number < slices
        at = sums + (matrix * slices + tl.where(known, number, 0)) * chunks * _SUMS
        total += tl.where(known, tl.sqrt(_tangent_square(sums, at, chunks, CHUNKS)), 0.0)
    tl.store(means + matrix, tl.sum(total, 0) / slices)


@triton.jit
def turn(
    table,
    reals,
    sums,  # of q, d and m'; without SPHERE not read
    means,
    stack,  # the directions d
    slices,
    length,
    chunks,
    SPHERE: tl.constexpr,
    STORED: tl.constexpr,
    weight_type: tl.constexpr,
    momentum_type: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Move along -d: on a line after the decay, on a sphere by a rotation, which m' is carried along.

    Where d is not finite nothing moves.
    """
    matrix, one, at, exists = _place(slices, length, chunks, BLOCK)
    row, real = table + matrix * _ROW, reals + matrix * _REALS
    lr = tl.load(real + _LR)
    size = (slices * length).to(tl.int64)
    d = tl.load(stack + matrix * size + at, mask=exists, other=0.0).to(tl.float32)
    q = _configuration(row, at, exists, STORED, weight_type)
    if SPHERE:
        qq, qd = _sum(sums, one, chunks, _QQ, CHUNKS), _sum(sums, one, chunks, _QZ, CHUNKS)
        square = _sum(sums, one, chunks, _ZZ, CHUNKS) - qd * qd / qq
        r = tl.load(tl.load(row + _RADII).to(tl.pointer_type(tl.float32)) + one % slices)
        t = tl.sqrt(tl.where(square < 0, 0.0, square))
        mean = tl.load(means + matrix)
        angle = lr * t / tl.where(mean > 0, mean, 1.0)
        sine, cosine = sincos(wrap(wrap(angle)))
        per = sine / tl.where(t > _TINY, t, 1.0)
        x = q / tl.sqrt(qq)
        u = d - qd / qq * q
        x_new = cosine * x - per * u
        if CHUNKS == 1:  # else its length is 1 up to the rounding of the sums
            x_new /= tl.sqrt(tl.sum(x_new * x_new, 0))
        finite = x_new == x_new
        m_at = tl.load(row + _MOMENTUM).to(tl.pointer_type(momentum_type)) + at
        m = tl.load(m_at, mask=exists, other=0.0).to(tl.float32)
        # the component of m' along x_new: m' is tangent at x, so x has none but its rounding
        qm, md = _sum(sums, one, chunks, _QM, CHUNKS), _sum(sums, one, chunks, _MZ, CHUNKS)
        normal = cosine * qm / tl.sqrt(qq) - per * (md - qd / qq * qm)
        carried = m - normal * x_new
        if CHUNKS == 1:  # again: of a large normal part the rounding stays behind
            carried -= tl.sum(carried * x_new, 0) * x_new
        tl.store(m_at, carried.to(momentum_type), mask=exists & (carried == carried))
        q_new = r * x_new
    else:
        kept = 1.0 - lr * tl.load(real + _DECAY)
        # torch rounds a bfloat16 weight twice; the average has the precision of the step
        q_new = (kept * q).to(momentum_type).to(tl.float32)
        q_new -= lr * tl.load(real + _SCALE) * d
        finite = d == d
    if STORED:
        position = tl.load(row + _POSITION).to(tl.pointer_type(tl.float32))
        tl.store(position + at, q_new, mask=exists & finite)
    else:
        weight = tl.load(row + _WEIGHT).to(tl.pointer_type(weight_type))
        tl.store(weight + at, q_new.to(weight_type), mask=exists & finite)
