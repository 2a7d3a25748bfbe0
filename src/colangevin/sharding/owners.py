"""Who steps which whole weight: the work is shared as evenly as whole weights allow."""

from collections.abc import Sequence

from colangevin.constraints import Manifold
from colangevin.constraints.forms import OrthogonalForm

__all__ = ["owners", "work"]

# What an element of a matrix costs at least, in units of one that moves alone: some thirty passes.
_OF_A_MATRIX = 32


def work(manifold: Manifold) -> int:
    """How long a step of a weight takes, in units of an element that moves alone.

    Args:
        manifold: of the weight.

    Returns:
        The work.
    """
    rows, *rest = manifold.shape or (1,)
    columns = 1
    for n in rest:
        columns *= n
    if isinstance(manifold.form, OrthogonalForm):
        return rows * columns * (_OF_A_MATRIX + min(rows, columns))
    return rows * columns


def owners(costs: Sequence[int], ranks: int) -> list[int]:
    """Give each weight to the rank that has the least to do so far, the largest first.

    Every rank computes the same list from the same costs. The rank with the most work has at most 4/3 of the
    best possible (Graham 1969).

    Args:
        costs: of the weights.
        ranks: how many there are.

    Returns:
        The rank of each weight.
    """
    load, chosen = [0] * ranks, [0] * len(costs)
    for weight in sorted(range(len(costs)), key=lambda number: (-costs[number], number)):
        rank = min(range(ranks), key=lambda each: (load[each], each))
        chosen[weight] = rank
        load[rank] += costs[weight]
    return chosen
