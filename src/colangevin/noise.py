r"""Standard normal noise as a pure function of (seed, step, parameter, element).

No generator keeps a state. So a resumed run continues bit for bit without a saved generator, ranks that share
a seed agree, and adding a parameter does not change the noise of the others.

A *stream* is the 64-bit key of one tensor of noise, mixed from the words that identify the tensor. Counter
:math:`i` of a stream gives 64 bits by the SplitMix64 finaliser (Steele, Lea, Flood 2014). A second key of the
stream is added between the finaliser's two multiplications, so that no two streams are shifts of one another.
The two halves of the 64 bits give elements :math:`2i` and :math:`2i + 1` by Box and Muller.
"""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.scratch import scratches
from colangevin.surroundings import lasting

__all__ = ["FIRST_MULTIPLIER", "INCREMENT", "SECOND_MULTIPLIER", "normal", "stream", "streams"]

#: the increment of SplitMix64, 2^64 / golden ratio
INCREMENT = 0x9E3779B97F4A7C15
#: the two multipliers of SplitMix64's finaliser
FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9
SECOND_MULTIPLIER = 0x94D049BB133111EB

_MASK = (1 << 64) - 1
# Pairs made at a time on the CPU: the some thirty passes over their 1 MB stay in the cache.
_CHUNK = 1 << 17
# Up to this many keys, Python's integers are faster than tensors.
_FEW = 32


def _mix(z: int) -> int:
    """The SplitMix64 finaliser of a 64-bit word."""
    z = ((z ^ (z >> 30)) * FIRST_MULTIPLIER) & _MASK
    z = ((z ^ (z >> 27)) * SECOND_MULTIPLIER) & _MASK
    return z ^ (z >> 31)


def stream(seed: int, *words: int) -> int:
    """The key of the noise identified by ``seed`` and ``words`` (step, parameter, replica, draw).

    Args:
        seed: the optimizer's seed.
        words: whole numbers; their order matters.

    Returns:
        A 64-bit key.
    """
    return _extend(_mix((seed + INCREMENT) & _MASK), words)


def _extend(key: int, words: Sequence[int]) -> int:
    for word in words:
        key = _mix((key + (word + 1) * INCREMENT) & _MASK)
    return key


def streams(keys: Sequence[int], copies: Sequence[range], *words: int) -> Sequence[int] | Tensor:
    """The keys of many copies: each key extended by each number of its range, and then by ``words``.

    Args:
        keys: one :func:`stream` for each range.
        copies: ranges of numbers, each of which is the next word.
        words: further words, the same for all.

    Returns:
        The keys that :func:`stream` gives for the same words, in a row: a list, or int64 when they are many.
    """
    if sum(map(len, copies)) <= _FEW:
        return [_extend(key, (copy, *words)) for key, each in zip(keys, copies, strict=True) for copy in each]
    counters = [torch.arange(each.start + 1, each.stop + 1, device="cpu") for each in copies]
    added = [z.mul_(_signed(INCREMENT)).add_(_signed(key)) for z, key in zip(counters, keys, strict=True)]
    z = _finalise(torch.cat(added))
    for word in words:
        z = _finalise(z.add_(_signed((word + 1) * INCREMENT & _MASK)))
    return z


def normal(
    keys: Sequence[int] | Tensor,
    shape: Sequence[int],
    *,
    dtype: torch.dtype,
    device: torch.device,
    skip: int = 0,
    out: Tensor | None = None,
) -> Tensor:
    """Independent standard normal numbers, one tensor for each key.

    Args:
        keys: one :func:`stream` for each tensor, or what :func:`streams` returns.
        shape: of each tensor.
        dtype: float32 or float64; both are made from the same bits.
        device: where the noise is made; values agree between devices to rounding.
        skip: how many elements at the beginning of each stream to leave out, an even number.
        out: memory for the result. It needs the elements of the shape, rounded up to an even number, for each
            key.

    Returns:
        Noise of shape (len(keys), *shape).
    """
    numel = math.prod(shape)
    pairs = (numel + 1) // 2
    rows = len(keys)
    if isinstance(keys, Tensor):
        first: Tensor | int = keys.to(device).unsqueeze(1)
        second = _finalise(keys + _signed(INCREMENT)).to(device).unsqueeze(1)
    else:
        first = _column(keys, device)
        mixed = [_signed(_mix((key + INCREMENT) & _MASK)) for key in keys]
        second = torch.tensor(mixed, dtype=torch.int64, device=device).unsqueeze(1)
    chunk = max(1, _CHUNK // max(1, rows)) if device.type == "cpu" else max(1, pairs)
    counter = _counters(min(pairs, chunk), device)
    half = torch.tensor(2.0**-32, dtype=dtype, device=device)
    if out is None:
        out = torch.empty(rows, 2 * pairs, dtype=dtype, device=device)
    both = torch.view_as_complex(out.view(rows, pairs, 2))  # writes both numbers of a pair in one pass
    for start in range(0, pairs, chunk):
        count = min(pairs - start, chunk)
        bits, shifted = scratches(("bits", "shifted"), (rows, count), torch.int64, device)
        u, angle, cosine = scratches(("u", "angle", "cosine"), (rows, count), dtype, device)
        ahead = _signed((start + skip // 2) * INCREMENT & _MASK)
        torch.add(counter[:, :count], _wrapped(first, ahead), out=bits)
        bits = _finalise(bits, second, shifted)
        # The radius takes 31 bits, which keeps u above 0 and ends the tail at 6.7 sigma. The angle takes 32.
        u.copy_(torch.bitwise_and(bits, 0x7FFFFFFF, out=shifted))
        angle.copy_(bits.bitwise_right_shift_(32)).mul_(math.tau * 2.0**-32)
        radius = torch.add(half, u, alpha=2.0**-31, out=u).log_().mul_(-2).sqrt_()
        torch.cos(angle, out=cosine).mul_(radius)
        sine = angle.sin_().mul_(radius)
        torch.complex(cosine, sine, out=both[:, start : start + count])
    return out[:, :numel].reshape(rows, *shape)


def _counters(count: int, device: torch.device) -> Tensor:
    """The first counters times SplitMix64's increment. On the CPU they are made once."""
    if device.type != "cpu" or count > _CHUNK:
        return torch.arange(count, device=device).mul_(_signed(INCREMENT)).unsqueeze(0)
    return _chunk_of_counters()[:, :count]


@functools.cache
@lasting
def _chunk_of_counters() -> Tensor:
    return torch.arange(_CHUNK, device="cpu").mul_(_signed(INCREMENT)).unsqueeze(0)


def _column(words: Sequence[int], device: torch.device) -> Tensor | int:
    """64-bit words as a column of int64. A single word stays a number, which torch adds faster."""
    signed = [_signed(word & _MASK) for word in words]
    return signed[0] if len(signed) == 1 else torch.tensor(signed, device=device).unsqueeze(1)


def _wrapped(first: Tensor | int, ahead: int) -> Tensor | int:
    """The sum of two 64-bit words, which wraps around as in int64."""
    return first + ahead if isinstance(first, Tensor) else _signed((first + ahead) & _MASK)


def _finalise(z: Tensor, second: Tensor | None = None, shifted: Tensor | None = None) -> Tensor:
    """SplitMix64's finaliser on int64 words, in place. A second key is added after the first product."""
    second = torch.zeros((), dtype=z.dtype, device=z.device) if second is None else second
    shifted = torch.empty_like(z) if shifted is None else shifted
    torch.bitwise_right_shift(z, 30, out=shifted).bitwise_and_((1 << 34) - 1)
    torch.add(second, z.bitwise_xor_(shifted), alpha=_signed(FIRST_MULTIPLIER), out=z)
    torch.bitwise_right_shift(z, 27, out=shifted).bitwise_and_((1 << 37) - 1)
    z.bitwise_xor_(shifted).mul_(_signed(SECOND_MULTIPLIER))
    torch.bitwise_right_shift(z, 31, out=shifted).bitwise_and_((1 << 33) - 1)
    return z.bitwise_xor_(shifted)


def _signed(word: int) -> int:
    """The int64 with the bits of an unsigned 64-bit word."""
    return word - (1 << 64) if word >= 1 << 63 else word
