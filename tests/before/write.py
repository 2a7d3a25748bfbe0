"""Writes the files beside it: runs cut in the middle, for later versions of the library to go on with.

    python -c "from tests.before.write import main; main()"

They were written by the commit named in each of them. Written again they would prove nothing: add a file
for a new form of a checkpoint, and leave those that are there.
"""

import gzip
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl

FOLDER = Path(__file__).parent
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "CoLod": lambda groups: cl.CoLod(groups, lr=0.05, temperature=0.01, weight_decay=1e-3, seed=7),
    "CoLud": lambda groups: cl.CoLud(groups, lr=0.2, friction=1.0, temperature=0.01, seed=7),
    "CoLud-BAOAB": lambda groups: cl.CoLud(
        groups, lr=0.2, friction=1.0, temperature=0.01, splitting="BAOAB", seed=7
    ),
    "ConstrainedSGD": lambda groups: cl.ConstrainedSGD(groups, lr=0.05, momentum=0.9, maximize=True),
}


def on_sphere_and_plane(w: Tensor) -> Tensor:
    """The circle in which a sphere of radius sqrt(2) meets the plane of zero mean."""
    return torch.stack((w.square().sum() - 2, w.sum()))


def in_ball(w: Tensor) -> Tensor:
    """A ball of radius 3."""
    return w.square().sum().reshape(1) - 9


def wave(shape: tuple[int, ...], phase: float) -> Tensor:
    """Numbers in [-1, 1] that need no generator."""
    count = torch.Size(shape).numel()
    return torch.sin(phase + 1.7 * torch.arange(count, dtype=torch.float64)).reshape(shape)


def rules() -> dict[str, cl.Constraint | None]:
    """A constraint for every parameter of :class:`Model`."""
    return {
        "circle": cl.Circle(1.5),
        "radii": cl.Circle(torch.tensor([1.1, 1.3, 1.7])),
        "strided": cl.Circle(1.5),
        "ball": cl.Sphere(4.0),
        "sphere": cl.Sphere(2.0, slack=False),
        "tall": cl.Orthogonal(),
        "filters": cl.Orthogonal(),
        "implicit": cl.Implicit(on_sphere_and_plane),
        "inequality": cl.Implicit(in_ball, inequality=True),
        "free": None,
    }


class Model(nn.Module):
    """A parameter for every kind of constraint; its loss pulls each towards a point off its manifold."""

    def __init__(self, dtype: torch.dtype, copies: int = 0) -> None:
        super().__init__()
        shapes = {
            "circle": (5, 4),
            "radii": (4, 3),
            "strided": (2, 3, 2, 2),
            "ball": (3, 5),
            "sphere": (3, 2, 2),
            "tall": (5, 3),
            "filters": (3, 2, 2, 2),
            "implicit": (2, 3),
            "inequality": (2, 3),
            "free": (7,),
        }
        for number, (name, shape) in enumerate(shapes.items()):
            lead = (copies,) if copies else ()
            weight = wave((*lead, *shape), number).to(dtype)
            if name == "strided":
                weight = weight.transpose(-1, -2)
            setattr(self, name, nn.Parameter(weight))

    def backward(self) -> None:
        """Gradients of half the squared distance to the targets, without a sum that a CPU could reorder."""
        for number, parameter in enumerate(self.parameters()):
            target = 1.2 * wave(tuple(parameter.shape), 100.0 + number)
            parameter.grad = (parameter.detach().double() - target).to(parameter.dtype)


def build(optimizer: str, dtype: torch.dtype, copies: int) -> tuple[Model, torch.optim.Optimizer]:
    """A model on its manifolds, and its optimizer."""
    model = Model(dtype, copies)
    groups = []
    for name, constraint in rules().items():
        parameter = getattr(model, name)
        group = {"params": [(name, parameter)], "replicas": copies}
        if constraint is not None:
            constraint.init_(parameter, init="nearest", replicas=bool(copies), name=name)
            group["constraint"] = constraint
        groups.append(group)
    return model, OPTIMIZERS[optimizer](groups)


def train(model: Model, optimizer: torch.optim.Optimizer, steps: int) -> None:
    """Steps with fresh gradients."""
    for _ in range(steps):
        model.backward()
        optimizer.step()


def machine() -> str:
    """What the bits of a product or a sine depend on."""
    return f"torch {torch.__version__.split('+')[0]}, {torch.backends.cpu.get_cpu_capability()}"


def saved(model: Model, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Everything that a run goes on from, by value."""
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    copied: dict[str, Any] = torch.utils._pytree.tree_map_only(Tensor, lambda tensor: tensor.clone(), whole)
    return copied


def checkpoint(optimizer: str, dtype: torch.dtype, copies: int) -> dict[str, Any]:
    """A run after three steps, and what it is after three more."""
    model, optim = build(optimizer, dtype, copies)
    train(model, optim, 3)
    middle = saved(model, optim)
    train(model, optim, 3)
    return {"middle": middle, "end": saved(model, optim)}


def sampling(folder: Path) -> tuple[Model, torch.optim.Optimizer, cl.Samples]:
    """A run that collects samples, in the middle."""
    model, optimizer = build("CoLud-BAOAB", torch.float32, 0)
    samples = cl.Samples(model, every=2, burn_in=1, folder=folder)
    collect(model, optimizer, samples, 5)
    return model, optimizer, samples


def collect(model: Model, optimizer: torch.optim.Optimizer, samples: cl.Samples, steps: int) -> None:
    """Steps that are offered to the samples."""
    for _ in range(steps):
        train(model, optimizer, 1)
        samples.collect()


def write(name: str, value: object) -> None:
    """Save something beside this file; most of a file of small tensors is padding."""
    with gzip.open(FOLDER / name, "wb") as file:
        torch.save(value, file)


def read(name: str) -> Any:
    """What :func:`write` saved."""
    with gzip.open(FOLDER / name, "rb") as file:
        return torch.load(file, weights_only=True)


def main() -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for optimizer in OPTIMIZERS:
        cases = {name: checkpoint(optimizer, dtype, 0) for name, dtype in DTYPES.items()}
        cases["replicas"] = checkpoint(optimizer, torch.float32, 3)
        write(f"{optimizer}.pt.gz", {"commit": commit, "machine": machine(), "cases": cases})
    model, optimizer, samples = sampling(FOLDER / "samples")
    middle = {**saved(model, optimizer), "samples": samples.state_dict()}
    train(model, optimizer, 3)
    end = saved(model, optimizer)
    write("samples.pt.gz", {"commit": commit, "machine": machine(), "middle": middle, "end": end})
