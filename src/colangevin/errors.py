"""Errors that name the parameter, its shape, the rule that was broken and the next action."""

from collections.abc import Sequence

__all__ = [
    "ConstraintError",
    "ConvergenceError",
    "InfeasibleError",
    "NonFiniteError",
    "SamplesError",
    "SplittingError",
    "label",
]


class ConstraintError(ValueError):
    """Something about a constraint, or about the step that keeps it, cannot be done as asked."""


class InfeasibleError(ConstraintError):
    """A weight does not satisfy its constraint where it has to."""


class ConvergenceError(ConstraintError):
    """No point of the manifold was found; weights and state are as they were before the step."""


class SplittingError(ConstraintError):
    """A splitting string cannot be parsed, or needs gradients that the step does not have."""


class NonFiniteError(ConstraintError):
    """A gradient holds NaN or Inf; weights and state are as they were before the step."""


class SamplesError(RuntimeError):
    """Samples that cannot be stored, read or used with this model."""


def label(name: str, shape: Sequence[int]) -> str:
    """Words for a parameter in a message: its name and its shape."""
    return f"parameter '{name}' {tuple(shape)}"
