"""The optimizer inside the wrappers that training frameworks put around it."""

from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["unwrap"]

# Wrappers around wrappers that are looked into: frameworks nest two, and a mock has an attribute without end.
_DEEPEST = 8


def unwrap(optimizer: object) -> ConstrainedOptimizer:
    """The optimizer of this library that an object is or wraps.

    Accelerate's ``AcceleratedOptimizer``, Lightning's ``LightningOptimizer`` and their like pass everything
    on to the optimizer in their attribute ``optimizer``; steps and state belong to that one.

    Args:
        optimizer: an optimizer of this library, or a wrapper around one or around another wrapper.

    Returns:
        The innermost optimizer.

    Raises:
        TypeError: for anything else, naming its class.
    """
    inner, depth = optimizer, 0
    # a scheduler, too, has an attribute 'optimizer', but no groups
    while depth < _DEEPEST and hasattr(inner, "param_groups") and hasattr(inner, "optimizer"):
        inner, depth = inner.optimizer, depth + 1
    if isinstance(inner, ConstrainedOptimizer):
        return inner
    inside = f" around a {type(inner).__name__}" if depth else ""
    raise TypeError(
        f"optimizer: a {type(optimizer).__name__}{inside}; must be CoLod, CoLud or ConstrainedSGD, or a "
        "wrapper with one of these as its attribute 'optimizer'."
    )
