"""What the fuzz tests draw: a weight, what holds it, how it moves, and what happens to it in between."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

import colangevin as cl

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def sphere_of_norm_one(w: Tensor) -> Tensor:
    return (w.square().sum() - 1).reshape(1)


def entries_at_most_two(w: Tensor) -> Tensor:
    return w.square().reshape(-1) - 4


def gradients(weight: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
    """Gradients of size 1 by kind: in all directions, along the normal, along one entry, or none at all."""
    noise = torch.randn(weight.shape, generator=draw, dtype=torch.float64)
    normal = weight.detach().double()
    one = torch.zeros_like(noise)
    one.reshape(-1)[:1] = 1
    size = float(normal.abs().max()) if normal.numel() else 1.0
    return {
        "random": noise,
        "normal": normal / (size or 1.0),
        "inward": -normal / (size or 1.0),
        "mixed": normal / (size or 1.0) + 1e-3 * noise,
        "one": one,
        "zero": torch.zeros_like(noise),
        "constant": torch.ones_like(noise),
    }


KINDS = ("random", "normal", "inward", "mixed", "one", "zero", "constant")
# up to where a kick in float32 still has a finite square; float16 holds no gradient beyond 65,504
SIZES = tuple(10.0**k for k in (-30, -8, -3, -1, 0, 0, 1, 2, 4, 6, 12, 30))


@dataclass(frozen=True)
class Held:
    """A constraint and the shape of a weight that it holds."""

    constraint: cl.Constraint
    shape: tuple[int, ...]
    replicas: int = 0

    @property
    def whole(self) -> tuple[int, ...]:
        return (self.replicas, *self.shape) if self.replicas else self.shape

    def weight(self, dtype: torch.dtype, seed: int) -> nn.Parameter:
        draw = torch.Generator().manual_seed(seed)
        weight = 0.3 * torch.randn(self.whole, generator=draw, dtype=torch.float64)
        if weight.numel():
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                self.constraint.init_(weight, replicas=bool(self.replicas), init="nearest")
        # rounding to the dtype may lead out of a bound by a rounding; toward zero it does not
        return nn.Parameter(
            weight.to(dtype) * (1 - 2 * torch.finfo(dtype).eps) if self.bounded else weight.to(dtype)
        )

    @property
    def bounded(self) -> bool:
        return self.constraint.on(self.shape).bounded


def shapes(lowest: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    sides = st.sampled_from((1, 1, 2, 3, 5, 8, 17))
    return st.lists(sides, min_size=lowest, max_size=4).map(tuple)


@st.composite
def helds(draw: st.DrawFn) -> Held:
    kind = draw(
        st.sampled_from(
            (
                "free",
                "circle",
                "sphere",
                "slack",
                "orthogonal",
                "implicit",
                "bounds",
                "rows",
                "symmetric",
                "nonnegative",
            )
        )
    )
    replicas = draw(st.sampled_from((0, 0, 0, 1, 3)))
    radius = draw(st.sampled_from((1e-3, 0.1, 1.0, 7.3, 1e4)))
    if kind == "orthogonal":
        return Held(cl.Orthogonal(), draw(shapes(2)), replicas)
    if kind == "implicit":
        shape = draw(st.sampled_from(((3,), (2, 2), (1, 4))))
        return Held(cl.Implicit(sphere_of_norm_one), shape, replicas)
    if kind == "bounds":
        return Held(cl.Implicit(entries_at_most_two, inequality=True), (2, 2), replicas)
    if kind == "rows":
        over = draw(st.sampled_from(("rows", "columns")))
        rows = st.sampled_from((cl.Affine.mean(0.0, over), cl.Affine.sum(1.0, over), cl.Simplex(over)))
        return Held(draw(rows), draw(st.sampled_from(((2, 3), (5, 8), (3, 2, 2), (17, 2)))), replicas)
    if kind == "symmetric":
        return Held(cl.Symmetric(), draw(st.sampled_from(((1, 1), (3, 3), (8, 8)))), replicas)
    shape = draw(shapes())
    constraints: dict[str, Callable[[], cl.Constraint]] = {
        "free": cl.Free,
        "circle": lambda: cl.Circle(radius),
        "sphere": lambda: cl.Sphere(radius, slack=False),
        "slack": lambda: cl.Sphere(radius),
        "nonnegative": cl.NonNegative,
    }
    return Held(constraints[kind](), shape, replicas)


@dataclass(frozen=True)
class Method:
    """An optimizer with its options."""

    kind: type[torch.optim.Optimizer]
    options: dict[str, Any]

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return self.kind(groups, **self.options)

    @property
    def closure(self) -> bool:
        """Whether a step needs several gradients."""
        return self.options.get("splitting") in ("OBABO", "ABO")


@st.composite
def methods(draw: st.DrawFn) -> Method:
    options: dict[str, Any] = {
        "lr": draw(st.sampled_from((0.0, 1e-6, 0.01, 0.1, 0.3, 1.0, 10.0))),
        "temperature": draw(st.sampled_from((0.0, 0.0, 1e-4, 1.0))),
        "weight_decay": draw(st.sampled_from((0.0, 0.0, 0.1))),
        "maximize": draw(st.booleans()),
        "seed": draw(st.integers(0, 5)),
    }
    kind = draw(st.sampled_from((cl.CoLod, cl.CoLud, cl.ConstrainedSGD)))
    if kind is cl.CoLud:
        options["friction"] = draw(st.sampled_from((0.0, 0.1, 1.0, 50.0)))
        options["splitting"] = draw(st.sampled_from(("OBA", "BOA", "BAOAB", "OBABO", "ABO")))
    if kind is cl.ConstrainedSGD:
        options["momentum"] = draw(st.sampled_from((0.0, 0.5, 0.9)))
    return Method(kind, options)


def groups_of(weight: nn.Parameter, free: nn.Parameter, held: Held) -> list[dict[str, Any]]:
    """The weight under its constraint, and a free one beside it."""
    copies = {"replicas": held.replicas} if held.replicas else {}
    return [
        {"params": [("weight", weight)], "constraint": held.constraint, **copies},
        {"params": [("free", free)], **copies},
    ]


def free_beside(held: Held, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.linspace(-1, 1, 3 * max(1, held.replicas), dtype=dtype).reshape(-1, 3))


def set_gradients(weight: nn.Parameter, free: nn.Parameter, kind: str, size: float, seed: int) -> None:
    """Gradients that their dtype can hold."""
    draw = torch.Generator().manual_seed(seed)
    largest = torch.finfo(weight.dtype).max / 1e3
    weight.grad = (min(size, largest) * gradients(weight, draw)[kind]).to(weight.dtype)
    free.grad = torch.full_like(free, min(1.0, size))


def tolerance(dtype: torch.dtype, held: Held) -> float:
    """Largest violation a step may leave: a few hundred roundings of the dtype the state is kept in."""
    eps = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    # of an implicit constraint it is g itself, which moves by up to 16 when a weight moves by its own size
    scale = 16 if isinstance(held.constraint, cl.Implicit) else 1
    return 64 * eps * scale * math.sqrt(max(1, math.prod(held.shape)))
