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
    """An argument, a parameter or a state that a constraint, or a step under it, cannot work with."""


class InfeasibleError(ConstraintError):
    """A weight does not satisfy its constraint."""


class ConvergenceError(ConstraintError):
    """No point of the manifold was found. Weights and state are as they were before the step."""


class SplittingError(ConstraintError):
    """A splitting string cannot be parsed, or needs gradients that the step does not have."""


class NonFiniteError(ConstraintError):
    """A gradient holds NaN or Inf. Weights and state are as they were before the step.

    A fused step on CUDA does not wait for the device: it does not move the entries that have such a gradient,
    and the error comes a few steps later.
    """


class SamplesError(RuntimeError):
    """Samples that cannot be stored, read or used with this model."""


def label(name: str, shape: Sequence[int]) -> str:
    """A parameter in an error message: its name and its shape."""
    return f"parameter '{name}' {tuple(shape)}"
