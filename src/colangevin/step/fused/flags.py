"""Gradients that are not finite, reported some steps later: the host does not wait for the device."""

import torch
from torch import Tensor

from colangevin.errors import NonFiniteError
from colangevin.step.entry import Entry
from colangevin.step.fused.uploads import Uploads

__all__ = ["Flags"]


class Flags:
    """One flag a parameter, which a kernel sets when it meets a gradient that is not finite.

    Args:
        entries: the parameters.
        upload: says where they are, and whether a CUDA graph is being recorded.
    """

    def __init__(self, entries: list[Entry], upload: Uploads) -> None:
        self._entries = entries
        self._upload = upload
        self._cuda = upload.device.type == "cuda"
        self._arrived: torch.cuda.Event | None = None  # while a copy is on its way
        #: for the kernels: int32, one a parameter
        self.table = torch.zeros(len(entries), dtype=torch.int32, device=upload.device)
        self._on_host: Tensor = torch.zeros(
            len(entries), dtype=torch.int32, device="cpu", pin_memory=self._cuda
        )

    def send(self) -> None:
        """Send the flags to the host, unless they are on their way or a graph is being recorded."""
        if not self._cuda or self._arrived is not None or self._upload.capturing:
            return
        self._on_host.copy_(self.table, non_blocking=True)
        self._arrived = torch.cuda.Event()
        self._arrived.record()

    def raise_if_set(self) -> None:
        """Raise when the flags of an earlier step have arrived and one is set.

        Raises:
            NonFiniteError: naming the first parameter.
        """
        flags = self.table
        if self._cuda:
            if self._arrived is None or self._upload.capturing or not self._arrived.query():
                return
            flags, self._arrived = self._on_host, None
        bad = [entry for entry, flag in zip(self._entries, flags.tolist(), strict=True) if flag]
        if bad:
            self.table.zero_()
            others = f" ({len(bad) - 1} more parameters had one too)" if len(bad) > 1 else ""
            raise NonFiniteError(
                f"{bad[0].label}: its gradient held NaN or Inf in an earlier step{others}. The entries it "
                "held them for were left as they were. Clip the gradient, or use torch.amp.GradScaler."
            )
