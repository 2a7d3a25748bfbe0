"""Elements in one order, found in another: logical numbers and places in memory."""

import triton
import triton.language as tl

from colangevin.kernels.columns import DigitRow, column, width

__all__ = ["reordered"]

_SIZE = column(DigitRow, "size")
_STRIDE = column(DigitRow, "stride")
_WIDTH = width(DigitRow)


@triton.jit
def reordered(number, digits, DIGITS: tl.constexpr):
    """Where elements stand in the other order, given their int32 numbers and the address of the digits."""
    row = digits.to(tl.pointer_type(tl.int32))
    place = number * tl.load(row + _STRIDE)
    if DIGITS > 1:
        rest = number
        place = number * 0
        for digit in tl.static_range(DIGITS):
            stride = tl.load(row + digit * _WIDTH + _STRIDE)
            if digit < DIGITS - 1:
                size = tl.load(row + digit * _WIDTH + _SIZE)
                place += (rest % size) * stride
                rest = rest // size
            else:
                place += rest * stride
    return place
