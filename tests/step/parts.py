"""A part of a weight beside the whole: the same steps, the part with its window on the noise of the whole."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.noise import Window

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "CoLod": lambda groups: cl.CoLod(groups, 0.02, temperature=0.1, weight_decay=0.1, seed=3),
    "OBA": lambda groups: cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, seed=3),
    "BAOAB": lambda groups: cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, splitting="BAOAB", seed=3),
}
#: without noise, so that a window has no meaning
QUIET: dict[str, Callable[..., Any]] = {"SGD": lambda groups: cl.ConstrainedSGD(groups, 0.1, 0.9)}


@dataclass(frozen=True)
class Part:
    """Rows and columns of a matrix."""

    rows: range
    columns: range

    def of(self, whole: Tensor) -> Tensor:
        """A copy of the part, of a matrix or of a column of it."""
        found = whole[self.rows.start : self.rows.stop]
        if found.shape[1] != 1:
            found = found[:, self.columns.start : self.columns.stop]
        return found.clone(memory_format=torch.contiguous_format)

    def window(self, columns: int) -> Window:
        """Where it lies in a matrix of so many columns."""
        whole_rows = len(self.columns) == columns
        length = len(self.rows) * columns if whole_rows else len(self.columns)
        return Window(self.rows.start * columns + self.columns.start, max(1, length), columns)


def circle_radii(shape: tuple[int, int]) -> Tensor:
    """A radius for each element."""
    return torch.linspace(8.0, 9.0, shape[0] * shape[1]).view(shape)


#: constraints by name, as functions of the radii that a weight or a part of it has
CONSTRAINTS: dict[str, Callable[[Tensor], cl.Constraint]] = {
    "free": lambda radii: cl.Free(),
    "circle": lambda radii: cl.Circle(8.0),
    "radii": cl.Circle,
    "sphere": lambda radii: cl.Sphere(8.0, slack=False),
    "radii, sphere": lambda radii: cl.Sphere(radii[:, 0], slack=False),
    "ball": lambda radii: cl.Sphere(80.0),
}


def moved(
    constraint: cl.Constraint, optimizer: str, weight: Tensor, gradients: list[Tensor], window: Window | None
) -> tuple[dict[str, Tensor], set[type]]:
    """The weight and its state after a step for each gradient, and which movers took it there."""
    parameter = nn.Parameter(weight)
    make = {**OPTIMIZERS, **QUIET}[optimizer]
    opt = make([{"params": [("layer.weight", parameter)], "constraint": constraint}])
    for entry in opt._roster.entries(opt.param_groups, opt._names, opt._all_dynamics(), opt.state):
        entry.window = window
    for gradient in gradients:
        parameter.grad = gradient
        opt.step()
    return {"weight": parameter.detach(), **opt.state[parameter]}, {type(each) for each in opt._plan.movers}


def beside_whole(
    constraint: str,
    optimizer: str,
    shape: tuple[int, int],
    part: Part,
    dtype: torch.dtype,
    *,
    off_by: int = 0,
    device: torch.device | None = None,
) -> tuple[dict[str, Tensor], dict[str, Tensor], set[type]]:
    """What becomes of a part, the same part of what becomes of the whole, and the movers of the part."""
    generator = torch.Generator().manual_seed(0)
    made = CONSTRAINTS[constraint]
    start = torch.randn(shape, generator=generator, dtype=torch.float64)
    held = made(circle_radii(shape))
    weight = held.init_(start, init="nearest").to(device, dtype)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]
    gradients = [gradient.to(device, dtype) for gradient in drawn]
    whole, _ = moved(held, optimizer, weight.clone(), gradients, None)
    window = part.window(shape[1])
    window = Window(window.first + off_by, window.length, window.stride)
    ours, movers = moved(
        made(part.of(circle_radii(shape))),
        optimizer,
        part.of(weight),
        [part.of(g) for g in gradients],
        window,
    )
    expected = {
        key: value if key == "step" else _of_state(part, value, shape) for key, value in whole.items()
    }
    return ours, expected, movers


def _of_state(part: Part, value: Tensor, shape: tuple[int, int]) -> Tensor:
    if value.shape == shape:
        return part.of(value)
    rows = value.reshape(shape[0], -1)  # with slack
    return rows[part.rows.start : part.rows.stop].reshape(1, len(part.rows), -1)


def assert_equal(ours: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Bit for bit."""
    assert ours.keys() >= {"weight"}
    assert ours.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(ours[key], value), key
