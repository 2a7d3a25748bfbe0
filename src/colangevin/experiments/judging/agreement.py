"""How near the predictions of one posterior are to those of another."""

from torch import Tensor

__all__ = ["agreement", "total_variation"]


def agreement(predicted: Tensor, reference: Tensor) -> float:
    """The share of data whose most probable class is the same.

    Args:
        predicted: probabilities of shape (data, classes).
        reference: to compare with, of the same shape.

    Returns:
        A number from 0 to 1.
    """
    predicted, reference = _checked(predicted, reference)
    return float((predicted.argmax(1) == reference.argmax(1)).double().mean())


def total_variation(predicted: Tensor, reference: Tensor) -> float:
    """Half the sum of what probabilities differ by, averaged over the data.

    Args:
        predicted: probabilities of shape (data, classes).
        reference: to compare with, of the same shape.

    Returns:
        A number from 0, for equal probabilities, to 1, for classes that exclude each other.
    """
    predicted, reference = _checked(predicted, reference)
    return float((predicted - reference).abs().sum(1).mean() / 2)


def _checked(predicted: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Both in float64 on the CPU."""
    if predicted.shape != reference.shape or predicted.dim() != 2:
        raise ValueError(
            f"probabilities of shapes {tuple(predicted.shape)} and {tuple(reference.shape)}: must both be "
            "(data, classes), of the same data in the same order."
        )
    pair = predicted.detach().double().cpu(), reference.detach().double().cpu()
    for each in pair:
        # written to accept 0 and 1 up to rounding, and to refuse NaN
        if not bool(((each >= -1e-6) & (each.sum(1, keepdim=True) - 1).abs().lt(1e-3)).all()):
            raise ValueError(
                "probabilities: some are below 0 or do not sum to 1. Take a softmax of logits first."
            )
    return pair
