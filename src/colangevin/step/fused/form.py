"""What the steps of the parameters that one launch moves have in common, whatever their numbers are."""

from collections.abc import Sequence
from dataclasses import dataclass

from colangevin.integrators.overdamped import Overdamped
from colangevin.integrators.underdamped import Underdamped

__all__ = ["Dynamics", "Form", "Letters", "form_of"]

Dynamics = Overdamped | Underdamped
#: of a splitting, each with its share of the step
Letters = Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Form:
    """The form of a step: a change of it takes other launches, a change of numbers does not.

    Attributes:
        letters: of the splitting; none for the overdamped step.
        noisy: whether a parameter has noise, or may have.
        varies: whether there is a row of rates for each copy of each weight, instead of one for all.
    """

    letters: Letters
    noisy: bool
    varies: bool


def form_of(dynamics: Sequence[Dynamics]) -> Form:
    """The form of dynamics that share a splitting.

    Args:
        dynamics: of each parameter.

    Returns:
        Their form.
    """
    first = dynamics[0]
    return Form(
        letters=() if isinstance(first, Overdamped) else first.splitting.segments[0],
        noisy=any(each.noisy for each in dynamics),
        varies=first.varies or any(each is not first for each in dynamics),
    )
