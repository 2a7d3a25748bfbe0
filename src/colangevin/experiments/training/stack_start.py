"""Where the copies of a stack start."""

import copy
from collections.abc import Callable, Sequence

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.models.mlp import MLP

__all__ = ["copies_at_the_start"]


def copies_at_the_start(
    build: Callable[[], MLP], methods: Sequence[Method], runs: int, seed: int
) -> cl.Replicas:
    """All copies, all runs of the first method first.

    The methods of a run start from the same weights, except that square weights are drawn orthogonal where a
    method asks for it.

    Args:
        build: makes a perceptron.
        methods: how to train.
        runs: copies for each method.
        seed: of the experiment.

    Returns:
        The copies.
    """
    default = cl.Replicas(build, runs, seed=seed)
    orthogonal = copy.deepcopy(default)
    if square := build().square_weights:
        orthogonal.constrain(dict.fromkeys(square, cl.Orthogonal()), init="draw")
    starts = [default if method.square == "default" else orthogonal for method in methods]
    models = (start[run] for start in starts for run in range(runs))
    return cl.Replicas(lambda: next(models), len(methods) * runs)
