"""A kernel that is launched again and again with arguments of the same kind."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from triton import knobs
from triton.runtime.jit import JITFunction

__all__ = ["Launch", "Sequel", "run"]


class Launch:
    """A kernel with its grid and constants. From the second call on, a launch costs what the driver's costs.

    In every launch Triton inspects each argument to find the kernel compiled for its kind. Here the kinds do
    not change: every argument is a tensor of the same dtype as before, and begins at a multiple of 16 bytes.
    So the first call keeps the compiled kernel, and later calls pass addresses only.

    Args:
        kernel: the Triton function.
        programs: how many programs to run.
        constants: its ``tl.constexpr`` and integer arguments and compiler options, by name.
    """

    def __init__(self, kernel: Any, programs: int, **constants: Any) -> None:
        self._kernel = kernel
        self._grid = (programs, 1, 1)
        self._constants = constants
        self._trailing = [constants[name] for name in kernel.arg_names if name in constants]
        self._compiled: Any = None

    def __call__(self, *arguments: Tensor) -> None:
        """Launch with the arguments that come before the constants."""
        compiled = self._compiled
        if compiled is None:
            made = self._kernel[self._grid](*arguments, **self._constants)
            if isinstance(self._kernel, JITFunction):  # Triton's interpreter compiles nothing
                self._compiled = made
            return
        # given a tensor, Triton would ask the driver where it lies
        addresses = [argument.data_ptr() for argument in arguments]
        if _profiled():
            compiled[self._grid](*addresses, *self._trailing)
            return
        # what Triton does besides, for the sake of profilers, takes longer than the launch
        stream = torch._C._cuda_getCurrentRawStream(arguments[0].device.index)
        compiled.run(
            *self._grid,
            stream,
            compiled.function,
            compiled.packed_metadata,
            None,
            None,
            None,
            *addresses,
            *self._trailing,
        )


def _profiled() -> bool:
    """Whether somebody asked Triton to be told of launches."""
    hooks = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    return any(hook is not None and getattr(hook, "calls", True) for hook in hooks)


#: launches of one kernel, one for each shape of its tiles with the table of those tiles, and their arguments
Sequel = tuple[list[tuple[Launch, Tensor]], tuple[Tensor, ...]]


def run(table: Tensor, sequels: Sequence[Sequel]) -> None:
    """Launch one kernel after the other over the rows of a table.

    Args:
        table: first argument of each kernel; the table of its tiles is the second.
        sequels: the kernels in their order, each with the arguments that follow.
    """
    for launches, arguments in sequels:
        for launch, tiles in launches:
            launch(table, tiles, *arguments)
