"""What the steps of the parameters that one launch moves have in common, whatever their numbers are."""

from collections.abc import Sequence
from dataclasses import dataclass

from colangevin.dynamics import Dynamics, Underdamped

__all__ = ["Letters", "Pattern", "pattern_of"]

#: of a splitting, each with its share of the step
Letters = Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Pattern:
    """The pattern of a step: a change of it takes other launches, a change of numbers does not.

    Attributes:
        letters: of the splitting; none for the overdamped step.
        noisy: whether a parameter has noise, or may have.
        varies: whether there is a row of rates for each copy of each weight, instead of one for all.
    """

    letters: Letters
    noisy: bool
    varies: bool


def pattern_of(dynamics: Sequence[Dynamics]) -> Pattern:
    """The pattern of dynamics that share a splitting.

    Args:
        dynamics: of each parameter.

    Returns:
        Their pattern.
    """
    first = dynamics[0]
    return Pattern(
        letters=first.splitting.segments[0] if isinstance(first, Underdamped) else (),
        noisy=any(each.noisy for each in dynamics),
        varies=first.varies or any(each is not first for each in dynamics),
    )
