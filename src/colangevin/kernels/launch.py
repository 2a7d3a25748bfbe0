"""A kernel that is launched again and again with arguments of the same kind."""

from typing import Any

from torch import Tensor
from triton.runtime.jit import JITFunction

__all__ = ["Launch"]


class Launch:
    """A kernel with its grid and constants; from the second call on, at the cost of the driver's.

    Triton looks at every argument of every launch to find the kernel compiled for its like. Here they do not
    change their kind: tensors of the same dtype that begin at multiples of 16 bytes, of which the address is
    enough.

    Args:
        kernel: the Triton function.
        programs: how many programs to run.
        constants: its ``tl.constexpr`` arguments and compiler options, by name.
    """

    def __init__(self, kernel: Any, programs: int, **constants: Any) -> None:
        self._kernel = kernel
        self._grid = (programs, 1, 1)
        self._constants = constants
        self._trailing = [constants[name] for name in kernel.arg_names if name in constants]
        self._again: Any = None

    def __call__(self, *arguments: Tensor) -> None:
        """Launch with the arguments that come before the constants."""
        if self._again is not None:
            # of an address the driver need not be asked where it is
            self._again(*[argument.data_ptr() for argument in arguments], *self._trailing)
            return
        compiled = self._kernel[self._grid](*arguments, **self._constants)
        if isinstance(self._kernel, JITFunction):  # and not Triton's interpreter
            self._again = compiled[self._grid]
