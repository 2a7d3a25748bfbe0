"""Growth: the same step on ever more weights."""

from collections.abc import Sequence

from benchmarks.workloads import Workload

__all__ = ["CIRCLE_WEIGHTS", "ORTHOGONAL_COUNT", "ORTHOGONAL_SIDE", "circles", "counts", "sides"]

#: how the names of these workloads begin; a number follows
CIRCLE_WEIGHTS = "growth, weights: "
ORTHOGONAL_SIDE = "growth, side of a square matrix: "
ORTHOGONAL_COUNT = "growth, matrices of 64 x 576: "

_SIDE = 4096  # of the largest tensor that weights come in
_MATRIX = (64, 576)  # a 3 x 3 kernel of 64 channels


def circles(numbers: Sequence[int]) -> list[Workload]:
    """So many weights, in tensors as large as those of a large model."""
    workloads = []
    for number in numbers:
        whole, rest = divmod(number, _SIDE**2)
        shapes = ((_SIDE, _SIDE),) * whole + (((rest,),) if rest else ())
        workloads.append(Workload(f"{CIRCLE_WEIGHTS}{number}", shapes))
    return workloads


def sides(numbers: Sequence[int]) -> list[Workload]:
    """One square matrix."""
    return [Workload(f"{ORTHOGONAL_SIDE}{n}", ((n, n),), orthonormal=True) for n in numbers]


def counts(numbers: Sequence[int]) -> list[Workload]:
    """So many matrices of one shape."""
    return [Workload(f"{ORTHOGONAL_COUNT}{n}", (_MATRIX,) * n, orthonormal=True) for n in numbers]
