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
    """What a constraint, or a step under it, cannot work with: an argument, a parameter or a state.

    Catch it to catch every error of constraints here; it is a `ValueError`. Its text names the parameter, its
    shape, the rule that was broken and the next action.

    Examples:
        >>> try:
        ...     cl.CoLod([("weight", nn.Parameter(torch.ones(2)))], lr=-0.1)
        ... except cl.ConstraintError as error:
        ...     print(error)
        lr=-0.1 in param_groups[0]: must be finite and >= 0.
    """


class InfeasibleError(ConstraintError):
    """A weight that does not satisfy its constraint, where it may not simply be moved.

    It is raised when groups are built and when a weight was edited during a run. Choose another radius, or
    `init="nearest"`.

    Examples:
        >>> try:
        ...     cl.Circle(0.05).check(torch.tensor([0.01, 0.3]))
        ... except cl.InfeasibleError as error:
        ...     print(error)
        parameter 'weight' (2,): 1 entries exceed radius=0.05 (largest 0.3). Choose radius >= 0.3...
    """


class ConvergenceError(ConstraintError):
    """No point of the manifold was found, by a step or a start under `Implicit`.

    Weights and state are as they were before the step. Reduce `lr` and go on.

    Examples:
        >>> def impossible(w):
        ...     return w.square().sum().reshape(1) + 1
        >>> try:
        ...     cl.Implicit(impossible).init_(torch.ones(3))
        ... except cl.ConvergenceError as error:
        ...     print(str(error)[:24])
        parameter 'weight' (3,):
    """


class SplittingError(ConstraintError):
    """A `splitting` of `CoLud` that cannot be parsed, or that needs a closure which `step` was not given.

    Examples:
        >>> try:
        ...     cl.CoLud([nn.Parameter(torch.ones(2))], 0.1, friction=1.0, splitting="BAD")
        ... except cl.SplittingError as error:
        ...     print(error)
        splitting='BAD': unknown letter 'D' at position 2; letters are A, B, O.
    """


class NonFiniteError(ConstraintError):
    """A gradient that holds NaN or Inf. Catch it to skip the batch.

    Weights and state are as they were before the step. A fused step on CUDA does not wait for the device: it
    does not move the entries that have such a gradient, and the error comes a few steps later.

    Examples:
        >>> weight = nn.Parameter(torch.ones(2))
        >>> optimizer = cl.CoLod([("weight", weight)], lr=0.1)
        >>> weight.grad = torch.tensor([1.0, torch.nan])
        >>> try:
        ...     optimizer.step()
        ... except cl.NonFiniteError as error:
        ...     print(error)
        parameter 'weight' (2,): its gradient holds NaN or Inf...
    """


class SamplesError(RuntimeError):
    """Samples that cannot be stored, read or used with this model.

    Its text names the file or the number that is wrong. It is a `RuntimeError`.

    Examples:
        >>> try:
        ...     cl.Samples(nn.Linear(2, 1)).predict(torch.zeros(5, 2))
        ... except cl.SamplesError as error:
        ...     print(error)
        samples: there is none yet; collect() was called 0 times, with burn_in=0 and every=1.
    """


def label(name: str, shape: Sequence[int]) -> str:
    """A parameter in an error message: its name and its shape."""
    return f"parameter '{name}' {tuple(shape)}"
