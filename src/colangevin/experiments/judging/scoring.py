"""How well logits predict: their mean loss, and how many of them are right."""

import importlib.util

from torch import Tensor
from torch.nn.functional import cross_entropy

__all__ = ["score"]


def score(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Mean loss in float32, and how many targets have the largest logit.

    Args:
        logits: of shape (..., classes).
        y: classes, of the shape that is left.

    Returns:
        Two scalars, of which the first can be differentiated.
    """
    logits, y = logits.flatten(0, -2), y.flatten()
    if logits.is_cuda and importlib.util.find_spec("triton") is not None:
        from colangevin.experiments.judging.scoring_kernels import Scores

        losses, hits = Scores.apply(logits, y)  # type: ignore[no-untyped-call]
        return losses.mean(), hits.sum()
    return cross_entropy(logits.float(), y), (logits.argmax(-1) == y).sum()
