"""A further gradient within a step: calls the closure again, at the weights that the drift has reached."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from colangevin.errors import SplittingError

__all__ = ["gradient_again"]


def gradient_again(closure: Callable[[], Any], parameters: Iterable[Tensor], splitting: str) -> None:
    """Call a closure once more, and raise if it added the new gradient to the last one.

    A closure must clear the gradients. To tell, they are set to infinity before the call: infinity is left
    only if the new gradient was added to it.

    Args:
        closure: re-evaluates the model.
        parameters: of the optimizer.
        splitting: the one that needs the gradient, for the message.

    Raises:
        SplittingError: when the closure added to the gradients. They are as they were before the call.
    """
    found = [(p, p.grad) for p in parameters if p.grad is not None and p.grad.numel()]
    kept = [grad.clone() for _, grad in found]
    with torch.no_grad():
        for _, grad in found:
            grad.fill_(math.inf)
    with torch.enable_grad():
        closure()
    if any(p.grad is grad and bool(grad.isposinf().all()) for p, grad in found):
        with torch.no_grad():
            for (_, grad), values in zip(found, kept, strict=True):
                grad.copy_(values)
        raise SplittingError(
            f"splitting={splitting!r}: a B after an A needs the gradient at the new position alone, but the "
            "closure added its gradient to the last one. Call optimizer.zero_grad() in the closure. Where "
            "gradients are accumulated over several calls, as by Lightning's accumulate_grad_batches, use a "
            "splitting that needs one gradient: 'OBA', 'BOA' or 'BAOAB'."
        )
