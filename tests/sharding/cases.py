"""What sharded steps are tried on: constraints, optimizers, and ways to cut a weight."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Placement, Replicate, Shard, distribute_tensor

import colangevin as cl
from colangevin.sharded import whole

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "CoLod": lambda groups: cl.CoLod(groups, 0.05, temperature=0.1, weight_decay=0.01, seed=3),
    "CoLud": lambda groups: cl.CoLud(groups, 0.3, friction=1.0, temperature=0.1, splitting="BAOAB", seed=3),
    "ConstrainedSGD": lambda groups: cl.ConstrainedSGD(groups, 0.1, 0.9, temperature=1e-3, seed=3),
    "ConstrainedAdam": lambda groups: cl.ConstrainedAdam(groups, 0.1, weight_decay=0.1),
    "ConstrainedMuon": lambda groups: cl.ConstrainedMuon(groups, 0.1, weight_decay=0.1),
}

#: the placements, and how many dimensions the mesh has
CUTS: dict[str, list[Placement]] = {
    "rows": [Shard(0)],
    "columns": [Shard(1)],
    "none": [Replicate()],
    "rows and columns": [Shard(0), Shard(1)],
    "rows twice": [Shard(0), Shard(0)],
    "copies of rows": [Replicate(), Shard(0)],
}


def _unit(w: Tensor) -> Tensor:
    return w.square().sum().reshape(1) - 1


def _sums_to_one(part: Tensor) -> Tensor:
    return part.sum() - 1


def constraints(rows: int, columns: int, dtype: torch.dtype) -> dict[str, tuple[cl.Constraint, Tensor]]:
    """Every constraint with a weight on it."""
    draw = torch.Generator().manual_seed(0)
    normal = torch.randn(rows, columns, generator=draw, dtype=dtype)
    small = torch.rand(rows, columns, generator=draw, dtype=dtype)
    radii = 1 + torch.rand(rows, columns, generator=draw, dtype=dtype)
    unit = nn.functional.normalize(normal.flatten(), dim=0).view(rows, columns)
    equations = cl.Affine(radii[:1], 1.0)
    return {
        "Free": (cl.Free(), normal),
        "Circle": (cl.Circle(2.0), small),
        "Circle of many radii": (cl.Circle(radii), small),
        "Sphere": (cl.Sphere(2.0 * columns), small),
        "Sphere of many radii": (cl.Sphere(columns * radii[:, 0]), small),
        "Sphere without slack": (cl.Sphere(1.0, slack=False), nn.functional.normalize(normal, dim=1)),
        "Sphere of columns": (cl.Sphere(2.0 * rows, over="columns"), small),
        "Sphere of the whole": (cl.Sphere(1.0, slack=False, over="matrix"), unit),
        "Sphere without slack, of its own norms": (cl.Sphere(), small),
        "Orthogonal, scaled": (cl.Orthogonal(0.7), cl.Orthogonal(0.7).init_(normal.clone())),
        "Orthogonal": (cl.Orthogonal(), cl.Orthogonal().init_(normal.clone())),
        "Affine": (equations, equations.init_(normal.clone())),
        "Affine sum": (cl.Affine.sum(1.0), cl.Affine.sum(1.0).init_(normal.clone())),
        "Symmetric": (cl.Symmetric(), normal @ normal.T),
        "NonNegative": (cl.NonNegative(), normal.abs()),
        "Simplex": (cl.Simplex(), normal.softmax(1)),
        "Simplex of columns": (cl.Simplex(over="columns"), normal.softmax(0)),
        "Implicit": (cl.Implicit(_unit), unit),
        "Implicit bound": (cl.Implicit(_unit, inequality=True), unit / 2),
        "Implicit rows": (cl.Implicit(_sums_to_one, over="rows"), normal.softmax(1)),
        "Implicit rows, bound": (cl.Implicit(_unit, inequality=True, over="rows"), unit / 2),
        "Implicit columns": (cl.Implicit(_sums_to_one, over="columns"), normal.softmax(0)),
        "Implicit entries": (cl.Implicit(torch.neg, inequality=True, over="entries"), small + 0.5),
    }


def mesh_shape(cut: str, ranks: int) -> tuple[int, ...]:
    """The shape of the mesh: all ranks in a row, or as a rectangle."""
    if len(CUTS[cut]) == 1:
        return (ranks,)
    first = 2 if ranks % 2 == 0 else 1
    return first, ranks // first


def spread(tensor: Tensor, cut: str, ranks: int) -> Tensor:
    """A tensor over all ranks."""
    return distribute_tensor(tensor.clone(), init_device_mesh("cpu", mesh_shape(cut, ranks)), CUTS[cut])


def trained(
    optimizer: str,
    weights: dict[str, tuple[cl.Constraint, Tensor]],
    place: Callable[[Tensor], Tensor] = torch.clone,
    steps: int = 2,
) -> dict[str, Tensor]:
    """Whole weights and states after some steps along gradients that are the same on every rank."""
    parameters = {name: nn.Parameter(place(weight)) for name, (_, weight) in weights.items()}
    groups = [
        {"params": [(name, parameters[name])], "constraint": constraint}
        for name, (constraint, _) in weights.items()
    ]
    made = OPTIMIZERS[optimizer](groups)
    draw = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for name, (_, weight) in weights.items():
            grad = torch.randn(weight.shape, generator=draw, dtype=weight.dtype) / 3
            parameters[name].grad = place(grad)
        made.step()
    return results(made, parameters)


def results(optimizer: Any, parameters: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """Weights, states and violations as whole tensors."""
    found = {}
    for name, parameter in parameters.items():
        found[name] = whole(parameter.detach()).clone()
        for key, value in sorted(optimizer.state[parameter].items()):
            found[f"{name}: {key}"] = whole(value).clone()
    for name, value in cl.diagnostics.violation(optimizer).items():
        found[f"{name}: violation"] = torch.tensor(value)
    return found
