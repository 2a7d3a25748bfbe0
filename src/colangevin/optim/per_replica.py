"""A tensor type for options with a number for each replica, which torch's schedulers can write."""

from typing import Any, NoReturn

import torch
from torch import Tensor

from colangevin.errors import ConstraintError

__all__ = ["PerReplica"]


class PerReplica(Tensor):
    """An option of a parameter group with one number for each replica, shape (replicas,).

    A scheduler of ``torch.optim.lr_scheduler`` computes a new ``lr`` from a group's own and writes it by
    ``fill_``. A tensor's ``fill_`` takes one number; this one takes a number for each replica too. Results of
    computations, and saved values, are plain tensors.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def fill_(self, value: Any) -> Tensor:
        """Write one number for all replicas, or a tensor with one for each."""
        return self.copy_(value) if isinstance(value, Tensor) else super().fill_(value)

    def __float__(self) -> NoReturn:
        raise ConstraintError(
            f"an option with a number for each of {self.numel()} replicas was read as one number, as "
            "ReduceLROnPlateau reads lr. Use a scheduler that depends on the step alone, such as StepLR or "
            "LambdaLR, or change group['lr'] in place."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made = memo[id(self)] = self.clone().as_subclass(PerReplica)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.as_subclass(Tensor).__reduce_ex__(protocol)
