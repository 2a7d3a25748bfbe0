"""Runs whose parts move together, beside the same run in one process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Placement, Shard, distribute_tensor

import colangevin as cl
from colangevin.constraints import solves
from tests.sharding.cases import results
from tests.sharding.simulated import simulate

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "CoLod": lambda groups: cl.CoLod(groups, 0.05, temperature=0.01, weight_decay=0.01, seed=3),
    "CoLud": lambda groups: cl.CoLud(groups, 0.3, friction=1.0, temperature=0.01, seed=3),
    "CoLud BAOAB": lambda groups: cl.CoLud(
        groups, 0.3, friction=1.0, temperature=0.01, splitting="BAOAB", seed=3
    ),
    "ConstrainedSGD": lambda groups: cl.ConstrainedSGD(groups, 0.1, 0.9),
}

Edit = Callable[[nn.Parameter], None]


@dataclass
class Run:
    """Steps of some weights of one shape.

    Attributes:
        optimizer: by name.
        weights: how they start.
        constraint: what holds them.
        scale: of the gradients; random ones of about 1 / 3 otherwise.
        steps: how many.
        edit: done to every parameter before the last step.
    """

    optimizer: str
    weights: list[Tensor]
    constraint: cl.Constraint = field(default_factory=cl.Orthogonal)
    scale: float = 1.0
    steps: int = 3
    edit: Edit | None = None

    def alone(self) -> dict[str, Tensor]:
        """What one process finds."""
        return self._results(torch.clone)

    def split(self, ranks: int, placements: Sequence[Placement], mesh: tuple[int, ...] | None = None) -> Any:
        """What each of some ranks finds."""

        def run(rank: int) -> dict[str, Tensor]:
            made = init_device_mesh("cpu", mesh or (ranks,))
            return self._results(lambda tensor: distribute_tensor(tensor.clone(), made, placements))

        return simulate(run, ranks)

    def begun(self, place: Callable[[Tensor], Tensor]) -> tuple[Any, list[nn.Parameter]]:
        """The optimizer, and its parameters."""
        parameters = [nn.Parameter(place(weight)) for weight in self.weights]
        named = [(f"w{number}", parameter) for number, parameter in enumerate(parameters)]
        return OPTIMIZERS[self.optimizer]([{"params": named, "constraint": self.constraint}]), parameters

    def _results(self, place: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        optimizer, parameters = self.begun(place)
        counts = solves.Counts()
        solves.watch(optimizer, counts)
        draw = torch.Generator().manual_seed(1)
        for step in range(self.steps):
            for parameter, weight in zip(parameters, self.weights, strict=True):
                grad = torch.randn(weight.shape, generator=draw, dtype=torch.float64) * self.scale / 3
                parameter.grad = place(grad.to(weight.dtype))
                if self.edit is not None and step == self.steps - 1:
                    with torch.no_grad():
                        self.edit(parameter)
            optimizer.step()
        found = results(optimizer, {f"w{number}": each for number, each in enumerate(parameters)})
        for name, value in cl.diagnostics.cotangency(optimizer).items():
            found[f"{name}: cotangency"] = torch.tensor(value)
        found["fallbacks"] = torch.tensor(counts.of("Orthogonal").fallbacks)
        return found


def frames(shape: Sequence[int], dtype: torch.dtype = torch.float32, count: int = 1) -> list[Tensor]:
    """Orthogonal weights."""
    draw = torch.Generator().manual_seed(0)
    drawn = [torch.randn(*shape, generator=draw, dtype=torch.float64).to(dtype) for _ in range(count)]
    return [cl.Orthogonal().init_(weight) for weight in drawn]


def assert_near(found: dict[str, Tensor], expected: dict[str, Tensor], ulps: float) -> None:
    """Weights and states differ by rounding of their largest entry, errors are as small."""
    assert found.keys() == expected.keys()
    eps = torch.finfo(expected["w0"].dtype).eps
    for name, value in expected.items():
        if name.endswith(("violation", "cotangency")):
            assert float(found[name]) <= float(value) + ulps * eps, name
        elif not value.is_floating_point():
            assert torch.equal(found[name], value), name
        else:
            bound = ulps * max(eps, torch.finfo(value.dtype).eps) * float(value.abs().max())
            assert float((found[name] - value).abs().max()) <= bound, name


def long_side(shape: Sequence[int]) -> list[Placement]:
    """Cut along the long side."""
    columns = torch.Size(shape[1:]).numel()
    return [Shard(0) if shape[0] > columns else Shard(1)]


def rows(shape: Sequence[int], radius: float | Tensor, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """A weight whose rows have their radius for length."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    return [cl.Sphere(radius, slack=False).init_(drawn)]
