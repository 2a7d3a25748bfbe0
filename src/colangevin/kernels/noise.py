"""The noise of :mod:`colangevin.noise` on the device, from the same bits."""

import triton
import triton.language as tl

from colangevin import noise
from colangevin.kernels.trigonometry import sincos

__all__ = ["copy_key", "draw_key", "normals", "normals_from", "normals_of"]

_INCREMENT = tl.constexpr(noise.INCREMENT)
_FIRST = tl.constexpr(noise.FIRST_MULTIPLIER)
_SECOND = tl.constexpr(noise.SECOND_MULTIPLIER)


@triton.jit
def _mix(z):
    """SplitMix64's finaliser."""
    z = (z ^ (z >> 30)) * _FIRST
    z = (z ^ (z >> 27)) * _SECOND
    return z ^ (z >> 31)


@triton.jit
def _extend(key, word):
    """The key of a stream with one more word, an integer tensor."""
    return _mix(key + (word.to(tl.uint64) + 1) * _INCREMENT)


@triton.jit
def copy_key(seed, step, word, copy):
    """Key of the noise of one copy of a parameter in one step: these words, and segment 0."""
    key = _mix(seed.to(tl.uint64) + _INCREMENT)
    key = _extend(key, step)
    key = _extend(key, word)
    key = _extend(key, copy)
    return _extend(key, key * 0)


@triton.jit
def draw_key(key, draw):
    """Key of one draw of a copy's noise; ``draw`` is a number, which the sum makes a tensor."""
    return _extend(key, key * 0 + draw)


@triton.jit
def normals(key, counter):
    """The two standard normals of each counter of a stream, by Box and Muller."""
    second = _mix(key + _INCREMENT)
    z = counter.to(tl.uint64) * _INCREMENT + key
    z = (z ^ (z >> 30)) * _FIRST + second
    z = (z ^ (z >> 27)) * _SECOND
    z = z ^ (z >> 31)
    u = ((z & 0x7FFFFFFF).to(tl.float32) + 0.5) * 4.656612873077393e-10  # 2^-31
    angle = (z >> 32).to(tl.uint32).to(tl.int32, bitcast=True).to(tl.float32)
    s, c = sincos(angle * 1.4629180792671596e-09)  # 2 pi 2^-32
    radius = tl.sqrt(tl.maximum(-2.0 * tl.log(u), 0.0))
    return radius * c, radius * s


@triton.jit
def normals_of(key, element):
    """Standard normals of the given elements; elements 2i and 2i + 1 share counter i."""
    even, odd = normals(key, element // 2)
    return tl.where((element & 1) == 0, even, odd)


@triton.jit
def _in_pairs(key, first, BLOCK: tl.constexpr):
    """Standard normals of a block of elements that begins at an even one: each counter is used once."""
    even, odd = normals(key, first // 2 + tl.arange(0, BLOCK // 2))
    return tl.interleave(even, odd)


@triton.jit
def normals_from(key, first, BLOCK: tl.constexpr, ANYWHERE: tl.constexpr):
    """Standard normals of a block of elements, which begins at an even one unless it may begin anywhere."""
    if ANYWHERE:
        if (first & 1) == 0:
            found = _in_pairs(key, first, BLOCK)
        else:
            found = normals_of(key, first + tl.arange(0, BLOCK))
    else:
        found = _in_pairs(key, first, BLOCK)
    return found
