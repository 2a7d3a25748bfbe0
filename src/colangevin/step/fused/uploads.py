"""Small tables on their way to the device."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Uploads"]


class Uploads:
    """Brings tables to a device without waiting for it.

    Args:
        device: where the tables go.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._recorded: list[Tensor] = []

    def __call__(self, values: Sequence[Any], dtype: torch.dtype) -> Tensor:
        """A table on the device.

        Args:
            values: rows, or numbers.
            dtype: of the table.

        Returns:
            The table.
        """
        return self.tensor(torch.tensor(values, dtype=dtype, device="cpu"))

    def tensor(self, table: Tensor) -> Tensor:
        """The same of a tensor on the CPU that nobody else writes."""
        if self.device.type != "cuda":
            return table
        table = table.pin_memory()
        if self.capturing:
            self._recorded.append(table)  # every replay of the graph copies from this memory again
        return table.to(self.device, non_blocking=True)

    @property
    def capturing(self) -> bool:
        """Whether a CUDA graph is being recorded."""
        return self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
