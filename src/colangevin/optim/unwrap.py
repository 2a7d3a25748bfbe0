"""The optimizer inside the wrappers that training frameworks put around it."""

from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["unwrap"]

# Most wrappers around an optimizer: frameworks nest two, and the attributes of a mock never end.
_DEEPEST = 8


def unwrap(optimizer: object) -> ConstrainedOptimizer:
    """The optimizer of this library that an object is or wraps.

    Wrappers such as Accelerate's ``AcceleratedOptimizer`` and Lightning's ``LightningOptimizer`` pass
    everything on to the optimizer in their attribute ``optimizer``, which has the state.

    Args:
        optimizer: an optimizer of this library, or a wrapper around one or around another wrapper.

    Returns:
        The innermost optimizer.

    Raises:
        TypeError: for anything else, naming its class.
    """
    inner, depth = optimizer, 0
    # a scheduler has an attribute 'optimizer' too, but no param_groups
    while depth < _DEEPEST and hasattr(inner, "param_groups") and hasattr(inner, "optimizer"):
        inner, depth = inner.optimizer, depth + 1
    if isinstance(inner, ConstrainedOptimizer):
        return inner
    inside = f" around a {type(inner).__name__}" if depth else ""
    raise TypeError(
        f"optimizer: a {type(optimizer).__name__}{inside}; must be an optimizer of this library, such as "
        "ConstrainedSGD, or a wrapper with one of these as its attribute 'optimizer'."
    )
