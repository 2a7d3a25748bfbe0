"""The optimizers of a stack: one of each class, on slices of every parameter that share its memory."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.models.mlp import FIRST, LAST
from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["Slice", "build_optimizers", "slices"]


@dataclass(frozen=True)
class Slice:
    """The copies of neighbouring methods that move a parameter alike, as a parameter of its own.

    Attributes:
        label: of the parameter.
        parameter: in the memory of the whole.
        methods: whose copies these are, by number.
        copies: the first copy and the one after the last.
        optimizer: class of the optimizer.
        constraint: on the parameter.
        options: of the group.
    """

    label: str
    parameter: Parameter
    methods: tuple[int, ...]
    copies: tuple[int, int]
    optimizer: str
    constraint: cl.Constraint
    options: tuple[tuple[str, float], ...]


def slices(
    weights: Mapping[str, Tensor],
    grads: Mapping[str, Tensor],
    methods: Sequence[Method],
    runs: int,
    square: Sequence[str],
) -> list[Slice]:
    """Cut every weight of a stack into the slices that its methods move.

    Args:
        weights: of shape (copies, ...) by name.
        grads: their gradients, which become those of the slices.
        methods: how to train.
        runs: copies for each method.
        square: names of the weights that may be orthogonal.

    Returns:
        The slices, weight by weight.
    """
    made = []
    for name, weight in weights.items():

        def alike(number: int, name: str = name) -> tuple[Any, ...]:
            method = methods[number]
            return method.optimizer, _constraint(method, name, square), _options(method)

        for key, neighbours in itertools.groupby(range(len(methods)), key=alike):
            numbers = tuple(neighbours)
            copies = numbers[0] * runs, (numbers[-1] + 1) * runs
            # A slice of .data counts its own versions. A slice of the weight would share one count, and a
            # step of one slice would look like an edit of the others.
            parameter = Parameter(weight.data[slice(*copies)])
            parameter.grad = grads[name][slice(*copies)]
            made.append(Slice(f"{methods[numbers[0]].name}: {name}", parameter, numbers, copies, *key))
    return made


def build_optimizers(made: Sequence[Slice], seed: int) -> list[ConstrainedOptimizer]:
    """An optimizer for each class that slices ask for.

    Args:
        made: the slices.
        seed: of the noise.

    Returns:
        The optimizers.
    """
    optimizers: list[ConstrainedOptimizer] = []
    for kind, groups in _groups(made).items():
        lr = groups[0]["lr"]
        if kind == "CoLud":
            optimizers.append(cl.CoLud(groups, lr, friction=groups[0]["friction"], seed=seed))
        elif kind == "ConstrainedSGD":
            optimizers.append(cl.ConstrainedSGD(groups, lr, seed=seed))
        else:
            optimizers.append(cl.CoLod(groups, lr, seed=seed))
    return optimizers


def _groups(made: Sequence[Slice]) -> dict[str, list[dict[str, Any]]]:
    """Parameter groups by optimizer; slices of the same copies that move alike share a group."""
    members: dict[tuple[Any, ...], list[Slice]] = {}
    for each in made:
        members.setdefault((each.optimizer, each.options, each.constraint, each.copies), []).append(each)
    groups: dict[str, list[dict[str, Any]]] = {}
    for (kind, options, constraint, (start, stop)), alike in members.items():
        params = [(each.label, each.parameter) for each in alike]
        group = {"params": params, "constraint": constraint, "replicas": stop - start, **dict(options)}
        groups.setdefault(kind, []).append(group)
    return groups


def _constraint(method: Method, name: str, square: Sequence[str]) -> cl.Constraint:
    if method.radii is not None and name in (FIRST, LAST):
        return cl.Circle(method.radii[name == LAST])
    if method.square == "orthogonal" and name in square:
        return cl.Orthogonal()
    return cl.Free()


def _options(method: Method) -> tuple[tuple[str, float], ...]:
    """The options of a method's parameter groups."""
    options = {"lr": method.lr, "temperature": method.temperature, "weight_decay": method.weight_decay}
    if method.optimizer == "CoLud":
        options["friction"] = method.friction
    if method.optimizer == "ConstrainedSGD":
        options["momentum"] = method.momentum
    return tuple(options.items())
