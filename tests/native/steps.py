"""Steps of optimizers with a native library: ``python steps.py LIBRARY RESULTS``.

Unlike the exercise it goes through the whole path, so that the memory that the movers give is tested as well.
"""

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

import colangevin as cl
from colangevin.native import library as loader
from colangevin.native.library import Library

SHAPES = ((1, 1), (3, 5), (7, 129), (130, 257))
CONSTRAINTS = (
    cl.Free(),
    cl.Circle(0.5),
    cl.Sphere(2.0),
    cl.Sphere(2.0, slack=False),
    cl.NonNegative(),
    cl.Simplex(),
    cl.Affine.sum(1.0),
    cl.Orthogonal(),
    cl.Orthogonal(scale=1.5),
)


def count_calls(native: Library) -> Counter[str]:
    """How often each function of the library is called from now on."""
    calls: Counter[str] = Counter()

    def counted(name: str) -> None:
        function = getattr(native, name)

        def call(*arguments: object) -> object:
            calls[name] += 1
            return function(*arguments)

        setattr(native, name, call)

    for name in ("look", "move", "normals"):
        calls[name] = 0
        counted(name)
    return calls


def optimizers(groups: list[dict[str, object]]) -> Iterator[cl.CoLod | cl.CoLud | cl.ConstrainedAdam]:
    """Every kind of step: without and with momentum, without and with noise, and Adam's."""
    yield cl.CoLod(groups, 0.01, weight_decay=0.1)
    yield cl.CoLod(groups, 0.01, temperature=0.01, seed=1)
    yield cl.CoLud(groups, 0.1, friction=1.0, maximize=True)
    yield cl.CoLud(groups, 0.1, friction=1.0, temperature=0.01, splitting="BAOAB", seed=2)
    yield cl.ConstrainedAdam(groups, 0.01, weight_decay=0.1)


def holds(constraint: cl.Constraint, shape: tuple[int, int]) -> bool:
    """Whether rows of this length can move."""
    return shape[1] > 1 or not isinstance(constraint, cl.Simplex | cl.Affine)


def start(constraint: cl.Constraint, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    """A weight that no bound forbids."""
    weight = 0.1 * torch.randn(shape, dtype=dtype)
    if isinstance(constraint, cl.NonNegative):
        return weight.abs() + 0.01
    return weight.softmax(1) if isinstance(constraint, cl.Simplex) else weight


def steps(dtype: torch.dtype) -> None:
    """Steps of weights of every shape on every constraint, on which they stay."""
    cases = [case for case in itertools.product(CONSTRAINTS, SHAPES) if holds(*case)]
    model = torch.nn.ParameterList(start(*case, dtype) for case in cases)
    rules = {str(number): constraint for number, (constraint, _) in enumerate(cases)}
    for optimizer in optimizers(cl.constrain(model, rules)):
        for _ in range(3):
            for weight in model:
                weight.grad = 0.1 * torch.randn_like(weight)
            optimizer.step()
        worst = max(cl.diagnostics.violation(optimizer).values())
        assert worst < 100 * torch.finfo(dtype).eps, worst


if __name__ == "__main__":
    torch.manual_seed(0)
    loader.load.__defaults__ = (Path(sys.argv[1]),)
    native = loader.library()
    assert native is not None, loader.why_not()
    calls = count_calls(native)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            steps(dtype)
    torch.save(dict(calls), sys.argv[2])
