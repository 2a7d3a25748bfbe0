"""No drift: weights are as close to their manifold after many steps as after one.

The worst of violation and cotangency over a run counts, measured at regular intervals. Tolerances are
relative: 1e-6 and 1e-14 (float32, float64) for circle and sphere, 5e-6 and 1e-12 for orthogonality. The slow
tier takes 100,000 steps, in some four hours on one core, and prints what it measures; the largest matrix runs
in float64 there and in float32 on CUDA. Fewer steps with

    COLANGEVIN_DRIFT_STEPS=10000 python -m pytest -m slow tests/optim/test_drift.py
"""

import math
import os
from dataclasses import dataclass

import pytest
import torch
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import Constraint
from colangevin.optim.base import ConstrainedOptimizer

SLOW_STEPS = int(os.environ.get("COLANGEVIN_DRIFT_STEPS", "100000"))
SLOW_EVERY = min(1000, SLOW_STEPS)
FAST_STEPS, FAST_EVERY = 300, 100
GRADIENT = 0.1

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
METHODS = ["colod", "colud"]


@dataclass(frozen=True)
class Case:
    constraint: Constraint
    shape: tuple[int, ...]
    replicas: int = 0

    @property
    def tolerances(self) -> dict[torch.dtype, float]:
        if isinstance(self.constraint, cl.Orthogonal):
            return {torch.float32: 5e-6, torch.float64: 1e-12}
        return {torch.float32: 1e-6, torch.float64: 1e-14}


CASES = {
    "circle-64x27": Case(cl.Circle(0.05), (64, 27)),
    "circle-1x1": Case(cl.Circle(1.0), (1, 1)),
    "circle-radii": Case(cl.Circle(torch.logspace(-2, 2, 27, dtype=torch.float64)), (7, 27)),
    "sphere-64x27": Case(cl.Sphere(0.7, slack=False), (64, 27)),
    "sphere-1x7": Case(cl.Sphere(2.0, slack=False), (1, 7)),
    "sphere-conv": Case(cl.Sphere(1.0, slack=False), (16, 8, 3, 3)),
    "sphere-slack-64x27": Case(cl.Sphere(3.0), (64, 27)),
    "sphere-slack-7x1": Case(cl.Sphere(0.3), (7, 1)),
    "sphere-slack-conv": Case(cl.Sphere(1.0), (16, 8, 3, 3)),
    "orthogonal-1x1": Case(cl.Orthogonal(), (1, 1)),
    "orthogonal-7x1": Case(cl.Orthogonal(), (7, 1)),
    "orthogonal-1x7": Case(cl.Orthogonal(), (1, 7)),
    "orthogonal-64x64": Case(cl.Orthogonal(), (64, 64)),
    "orthogonal-64x27": Case(cl.Orthogonal(), (64, 27)),
    "orthogonal-conv": Case(cl.Orthogonal(), (16, 8, 3, 3)),
    "orthogonal-4-replicas": Case(cl.Orthogonal(), (20, 5), replicas=4),
    "orthogonal-128x1152": Case(cl.Orthogonal(), (128, 1152)),
}
LARGEST = "orthogonal-128x1152"
SMALL_CASES = [name for name in CASES if name != LARGEST]


def start(case: Case, dtype: torch.dtype) -> Parameter:
    shape = (case.replicas, *case.shape) if case.replicas else case.shape
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    if isinstance(case.constraint, cl.Circle):
        weight = torch.tanh(weight) * case.constraint.radii.like(weight)
    elif isinstance(case.constraint, cl.Sphere) and case.constraint.slack:
        rows = weight.flatten(1)
        weight = (0.5 * case.constraint.radii.like(rows) * rows / rows.norm(dim=1, keepdim=True)).view(shape)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2)
            case.constraint.init_(weight, replicas=bool(case.replicas))
    return Parameter(weight)


def optimizer_of(method: str, case: Case, parameter: Parameter) -> ConstrainedOptimizer:
    """Steps that move visibly: by about 0.005 to 0.02 in every entry, where the radius allows it."""
    group = {"params": [parameter], "constraint": case.constraint, "replicas": case.replicas}
    if method == "colod":
        return cl.CoLod([group], lr=0.05, temperature=1e-4, seed=3)
    return cl.CoLud([group], lr=0.2, friction=1.0, temperature=1e-4, seed=3)


def run(
    method: str, case: Case, dtype: torch.dtype, steps: int, every: int, device: str = "cpu"
) -> tuple[float, float]:
    """Steps under random gradients.

    Returns:
        The worst violation and the worst cotangency.
    """
    parameter = Parameter(start(case, dtype).detach().to(device))
    first = parameter.detach().clone()
    optimizer = optimizer_of(method, case, parameter)
    generator = torch.Generator(device).manual_seed(4)
    parameter.grad = torch.empty_like(parameter)
    violation = cotangency = 0.0
    for step in range(1, steps + 1):
        parameter.grad.normal_(0.0, GRADIENT, generator=generator)
        optimizer.step()
        if step % every == 0:
            # max(nan, x) may be x: NaN must not hide
            now = (cl.diagnostics.violation(optimizer), cl.diagnostics.cotangency(optimizer))
            assert all(math.isfinite(value) for measured in now for value in measured.values())
            violation = max(violation, *now[0].values())
            cotangency = max(cotangency, *now[1].values(), 0.0)
    freedom = case.constraint.on(case.shape).degrees_of_freedom
    distance = float((parameter.detach() - first).abs().max() / first.abs().max())
    assert distance > 1e-3 or freedom == 0, "the run did not go anywhere"
    return violation, cotangency


@DTYPES
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SMALL_CASES)
def test_no_drift_in_three_hundred_steps(name: str, method: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    violation, cotangency = run(method, case, dtype, FAST_STEPS, FAST_EVERY)
    assert violation <= case.tolerances[dtype]
    assert cotangency <= case.tolerances[dtype]


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SMALL_CASES)
def test_no_drift(name: str, method: str, dtype: torch.dtype, capsys: pytest.CaptureFixture[str]) -> None:
    check_long_run(name, method, dtype, "cpu", capsys)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_no_drift_of_the_largest(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_long_run(LARGEST, method, torch.float64, "cpu", capsys)


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_no_drift_on_cuda(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_long_run(LARGEST, method, torch.float32, "cuda", capsys)


def check_long_run(
    name: str, method: str, dtype: torch.dtype, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    violation, cotangency = run(method, case, dtype, SLOW_STEPS, SLOW_EVERY, device)
    with capsys.disabled():
        print(f"\n{name} {method} {dtype}: violation {violation:.1e}, cotangency {cotangency:.1e}")
    assert violation <= case.tolerances[dtype]
    assert cotangency <= case.tolerances[dtype]
