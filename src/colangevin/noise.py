r"""Standard normal noise as a pure function of (seed, step, parameter, element).

No generator keeps a state. So a resumed run continues bit for bit without a saved generator, ranks that share
a seed agree, and adding a parameter does not change the noise of the others. A parameter that has a name is
known by it, wherever it stands in an optimizer or in which of several; another by its number.

A *stream* is the 64-bit key of one tensor of noise, mixed from the words that identify the tensor. Counter
:math:`i` of a stream gives 64 bits by the SplitMix64 finaliser (Steele, Lea, Flood 2014). A second key of the
stream is added between the finaliser's two multiplications, so that no two streams are shifts of one another.
The two halves of the 64 bits give elements :math:`2i` and :math:`2i + 1` by Box and Muller.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin.native.library import library

__all__ = [
    "FIRST_MULTIPLIER",
    "INCREMENT",
    "SECOND_MULTIPLIER",
    "Window",
    "normal",
    "stream",
    "streams",
    "word",
]

#: the increment of SplitMix64, 2^64 / golden ratio
INCREMENT = 0x9E3779B97F4A7C15
#: the two multipliers of SplitMix64's finaliser
FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9
SECOND_MULTIPLIER = 0x94D049BB133111EB

_MASK = (1 << 64) - 1
# Pairs made at a time on the CPU: the some thirty passes over them stay in the cache.
_CHUNK = 1 << 14
# Up to this many keys, Python's integers are faster than tensors.
_FEW = 32


@dataclass(frozen=True)
class Window:
    """Which elements of a whole weight a part of it has: so the part draws the noise that the whole would.

    Element i of the part is element ``first + (i // length) * stride + i % length`` of the whole. Of a matrix
    with n columns, rows 2 and 3 are ``Window(2 * n, 2 * n, 0)``, and columns 2, 3 and 4 ``Window(2, 3, n)``.

    Args:
        first: element of the part, as the whole counts it.
        length: how many elements follow one another, at least 1; the whole part if it is in one piece.
        stride: from where such a run begins to where the next one does, if there is another.
    """

    first: int
    length: int
    stride: int

    def __post_init__(self) -> None:
        if self.first < 0 or self.length < 1:
            raise ValueError(f"{self}: first must be at least 0, and length at least 1.")

    def in_one_piece(self, numel: int) -> bool:
        """Whether the elements of a part of so many follow one another."""
        return self.length >= numel

    def scaled(self, numbers: int, elements: int) -> "Window":
        """The window on noise of ``numbers`` numbers for every ``elements`` elements.

        Args:
            numbers: of the noise.
            elements: of the weight; runs in several pieces consist of whole multiples.

        Returns:
            The window, in numbers of the noise.
        """
        # rounded up: the only run of a part in one piece may be given longer than the part
        length = -(-self.length * numbers // elements)
        return Window(self.first * numbers // elements, length, self.stride * numbers // elements)


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


def word(name: str, occurrence: int) -> int:
    """The word of a parameter that is known by its name.

    Args:
        name: of the parameter.
        occurrence: how many parameters of the same name come before it in its optimizer.

    Returns:
        A number of 64 bits with sign, which is how tables of words hold it.
    """
    digest = hashlib.blake2b(f"{occurrence}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


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
    window: Window | None = None,
) -> Tensor:
    """Independent standard normal numbers, one tensor for each key.

    Args:
        keys: one :func:`stream` for each tensor, or what :func:`streams` returns.
        shape: of each tensor.
        dtype: float32 or float64; both are made from the same bits.
        device: where the noise is made; values agree between devices to rounding.
        window: where each tensor lies in a whole one, whose noise is returned, bit for bit; None when it is
            the whole.

    Returns:
        Noise of shape (len(keys), *shape).
    """
    native, numel = library() if device.type == "cpu" else None, math.prod(shape)
    if native is None:
        made = _in_torch(keys, numel, dtype, device, window)
    else:
        made = torch.empty(len(keys), numel, dtype=dtype, device=device)
        if not isinstance(keys, Tensor):
            keys = torch.tensor([_signed(key & _MASK) for key in keys], dtype=torch.int64, device="cpu")
        run = window or Window(0, max(1, numel), 0)
        in_double, threads = dtype == torch.float64, torch.get_num_threads()
        place = (run.first, min(run.length, max(1, numel)), run.stride)
        native.normals(keys.data_ptr(), len(keys), numel, *place, in_double, made.data_ptr(), threads)
    return made.reshape(len(keys), *shape)


def _in_torch(
    keys: Sequence[int] | Tensor,
    numel: int,
    dtype: torch.dtype,
    device: torch.device,
    window: Window | None,
) -> Tensor:
    """The same by torch's own operations, on any device: a row for each key."""
    rows = len(keys)
    if isinstance(keys, Tensor):
        first: Tensor | int = keys.to(device).unsqueeze(1)
        second = _finalise(keys + _signed(INCREMENT)).to(device).unsqueeze(1)
    else:
        first = _column(keys, device)
        mixed = [_signed(_mix((key + INCREMENT) & _MASK)) for key in keys]
        second = torch.tensor(mixed, dtype=torch.int64, device=device).unsqueeze(1)
    if window is not None:
        # each element alone: a neighbour in the part need not be the one that shares its counter
        i = torch.arange(numel, device=device)
        element = i.div(window.length, rounding_mode="floor").mul_(window.stride)
        element.add_(i.remainder_(window.length)).add_(window.first)
        radius, angle = _polar(_finalise((element >> 1).mul_(_signed(INCREMENT)) + first, second), dtype)
        return torch.where((element & 1).bool(), angle.sin(), angle.cos()).mul_(radius)
    pairs = (numel + 1) // 2
    chunk = max(1, _CHUNK // max(1, rows)) if device.type == "cpu" else max(1, pairs)
    out = torch.empty(rows, pairs, 2, dtype=dtype, device=device)
    for start in range(0, pairs, chunk):
        stop = min(pairs, start + chunk)
        counters = torch.arange(start, stop, device=device).mul_(_signed(INCREMENT))
        radius, angle = _polar(_finalise(counters + first, second), dtype)
        torch.mul(radius, angle.cos(), out=out[:, start:stop, 0])
        torch.mul(radius, angle.sin_(), out=out[:, start:stop, 1])
    return out.view(rows, 2 * pairs)[:, :numel]


def _polar(bits: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Radius and angle of a pair of normals, by Box and Muller; the bits are used up."""
    # The radius takes 31 bits, which keeps u above 0 and ends the tail at 6.7 sigma. The angle takes 32.
    u = (bits & 0x7FFFFFFF).to(dtype).mul_(2.0**-31).add_(2.0**-32)
    angle = bits.bitwise_right_shift_(32).to(dtype).mul_(math.tau * 2.0**-32)
    return u.log_().mul_(-2).sqrt_(), angle


def _column(words: Sequence[int], device: torch.device) -> Tensor | int:
    """64-bit words as a column of int64. A single word stays a number, which torch adds faster."""
    signed = [_signed(word & _MASK) for word in words]
    return signed[0] if len(signed) == 1 else torch.tensor(signed, device=device).unsqueeze(1)


def _finalise(z: Tensor, second: Tensor | int = 0) -> Tensor:
    """SplitMix64's finaliser on int64 words. A second key is added after the first product."""
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * _signed(FIRST_MULTIPLIER) + second
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * _signed(SECOND_MULTIPLIER)
    return z ^ ((z >> 31) & ((1 << 33) - 1))


def _signed(word: int) -> int:
    """The int64 with the bits of an unsigned 64-bit word."""
    return word - (1 << 64) if word >= 1 << 63 else word
