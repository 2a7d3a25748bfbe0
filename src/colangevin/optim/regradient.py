"""Another gradient within a step: the closure is called again, at the weights as they are by then."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from colangevin.errors import SplittingError

__all__ = ["gradient_again"]


def gradient_again(closure: Callable[[], Any], parameters: Iterable[Tensor], splitting: str) -> None:
    """Call a closure once more, and make sure that it left the new gradient alone.

    A closure that does not clear the gradients adds the new ones to the old. The gradients are set to
    infinity before the call, which survives an addition and nothing else.

    Args:
        closure: re-evaluates the model.
        parameters: of the optimizer.
        splitting: that needs the gradient, for the message.

    Raises:
        SplittingError: when the closure added to what it found; the gradients are as they were.
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
