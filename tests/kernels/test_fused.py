"""Fused and plain paths agree: the same weights, states and noise, to rounding."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.step import plan
from tests.kernels.beside_plain import take_steps

STEPS = 3
# Largest difference after STEPS steps of weights of size 1: a few roundings of float32, or one unit of the
# coarse dtypes. Orthogonality multiplies numbers of 16 bits.
TOLERANCES = {torch.float32: 2e-6, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
ORTHOGONAL = {torch.float32: 1e-4, torch.bfloat16: 1.6e-2, torch.float16: 3e-3}

OPTIMIZERS: dict[str, Callable[..., cl.optim.base.ConstrainedOptimizer]] = {
    "colod": lambda groups: cl.CoLod(groups, 0.05, weight_decay=0.1),
    "colod-noisy": lambda groups: cl.CoLod(groups, 0.05, temperature=0.01, seed=3),
    "colud": lambda groups: cl.CoLud(groups, 0.2, friction=1.0, maximize=True),
    "colud-noisy": lambda groups: cl.CoLud(groups, 0.2, friction=1.0, temperature=0.01, seed=3),
    "colud-BAOAB": lambda groups: cl.CoLud(
        groups, 0.2, friction=1.0, temperature=0.01, splitting="BAOAB", seed=3
    ),
    "sgd": lambda groups: cl.ConstrainedSGD(groups, 0.05, momentum=0.9, weight_decay=0.1),
}

ELEMENTWISE = [((n,), c) for n in (1, 3, 63, 65, 129) for c in (cl.Free(), cl.Circle(0.5))]
SPHERES = [
    ((5, 7), cl.Sphere(2.0)),
    ((2, 64), cl.Sphere(2.0)),
    ((3, 66), cl.Sphere(2.0)),
    ((3, 4, 3, 3), cl.Sphere(0.7, slack=False)),
    ((2, 1), cl.Sphere(1.0)),
]
MATRICES = [(s, cl.Orthogonal()) for s in ((18, 24), (20, 9), (7, 7), (4, 2, 3, 3), (1, 7), (7, 1))]


def build(cases: list[tuple[tuple[int, ...], cl.Constraint]], dtype: torch.dtype, device: torch.device):
    torch.manual_seed(0)
    groups = []
    for number, (shape, constraint) in enumerate(cases):
        weight = torch.randn(shape) * 0.1
        constraint.init_(weight)
        parameter = nn.Parameter(weight.to(dtype).to(device))
        groups.append({"params": [(f"w{number}", parameter)], "constraint": constraint})
    return groups


def parameters(groups: list[dict]) -> list[Tensor]:
    """Of groups before or after torch took the names out of them."""
    members = [member for group in groups for member in group["params"]]
    return [member[1] if isinstance(member, tuple) else member for member in members]


def run(make, groups, steps: int, *, size: float = 1.0, edit: Callable[[Tensor], object] | None = None):
    optimizer = make(groups)
    draw = torch.Generator().manual_seed(1)
    for step in range(steps):
        for parameter in parameters(groups):
            grad = size * torch.randn(parameter.shape, generator=draw)
            parameter.grad = grad.to(parameter.dtype).to(parameter.device)
        if edit is not None and step == 2:
            for parameter in parameters(groups):
                edit(parameter)
        optimizer.step()
    return optimizer


def compare(monkeypatch, device, make, cases, dtype, tolerance, **options) -> None:
    groups = build(cases, dtype, device)
    fused = run(make, groups, STEPS, **options)
    assert all(mover.watches for mover in fused._plan.movers)
    with monkeypatch.context() as patch:
        patch.setattr(plan, "family", lambda entry, dynamics: None)
        plain_groups = build(cases, dtype, device)
        plain = run(make, plain_groups, STEPS, **options)
        assert not plain._plan.watching
    for ours, oracle in zip(parameters(groups), parameters(plain_groups), strict=True):
        torch.testing.assert_close(ours, oracle, rtol=0, atol=tolerance[dtype])
        for key, value in plain.state[oracle].items():
            scale = max(1.0, float(value.abs().max()))
            torch.testing.assert_close(fused.state[ours][key], value, rtol=0, atol=tolerance[dtype] * scale)
    assert max(cl.diagnostics.violation(fused).values()) <= 1e-5
    assert max([0.0, *cl.diagnostics.cotangency(fused).values()]) <= 4e-5


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_lines_and_circles(monkeypatch, device, name, dtype):
    compare(monkeypatch, device, OPTIMIZERS[name], ELEMENTWISE, dtype, TOLERANCES)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_spheres(monkeypatch, device, name):
    for slack in (True, False):
        cases = [(shape, c) for shape, c in SPHERES if c.slack == slack]
        compare(monkeypatch, device, OPTIMIZERS[name], cases, torch.float32, TOLERANCES)


@pytest.mark.parametrize("name", ["colod-noisy", "colud-BAOAB", "sgd"])
def test_orthogonal_matrices(monkeypatch, device, name):
    compare(monkeypatch, device, OPTIMIZERS[name], MATRICES, torch.float32, ORTHOGONAL, size=0.3)


def test_orthogonal_matrices_beyond_quasi_newton(monkeypatch, device):
    # Newton-Schulz stops when the last correction can do the rest, which goes to the nearest point instead
    tolerance = {torch.float32: 1e-2}
    compare(monkeypatch, device, OPTIMIZERS["sgd"], MATRICES[:3], torch.float32, tolerance, size=30.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_orthogonal_matrices_of_coarse_weights(monkeypatch, device, dtype):
    compare(monkeypatch, device, OPTIMIZERS["sgd"], MATRICES[:2], dtype, ORTHOGONAL, size=0.1)


@torch.no_grad()
def halve_one(weight: Tensor) -> None:
    weight.view(-1)[-1] *= 0.5


@pytest.mark.parametrize("name", ["colud-noisy", "colod-noisy"])
@pytest.mark.parametrize(
    "edit", [halve_one, lambda weight: weight.data.mul_(0.5)], ids=["one", "all, by .data"]
)
def test_weights_changed_from_outside(monkeypatch, device, name, edit):
    cases = [((1000,), cl.Circle(0.5)), ((5, 7), cl.Sphere(2.0))]
    compare(monkeypatch, device, OPTIMIZERS[name], cases, torch.float32, TOLERANCES, edit=edit)


def test_circle_weights_that_nobody_changed_are_not_read(device):
    groups = build([((300,), cl.Circle(0.5))], torch.float32, device)
    optimizer = run(OPTIMIZERS["colud"], groups, 2)
    assert optimizer._plan.watching[0].trusted
    (weight,) = parameters(groups)
    before = weight.detach().clone()
    weight.data[40] += 0.1  # torch does not count it, and no other weight near by has changed
    weight.grad.zero_()
    optimizer.state[weight]["momentum"].zero_()
    optimizer.step()
    torch.testing.assert_close(weight.detach(), before, rtol=0, atol=1e-6)


def test_unaligned_views(monkeypatch, device):
    pool = torch.linspace(-0.4, 0.4, 203, device=device)
    views = [pool[1:102], pool[102:203]]
    oracle = [view.clone() for view in views]
    for weights in (views, oracle):
        weights[:] = [weight.requires_grad_(False) for weight in weights]
    steps = []
    for weights, fuse in ((views, True), (oracle, False)):
        with monkeypatch.context() as patch:
            if not fuse:
                patch.setattr(plan, "family", lambda entry, dynamics: None)
            optimizer = cl.ConstrainedSGD(
                [{"params": weights, "constraint": cl.Circle(0.5)}], 0.05, momentum=0.9
            )
            for weight in weights:
                weight.grad = torch.ones_like(weight)
            optimizer.step()
            steps.append(optimizer)
    assert steps[0]._plan.watching
    for ours, plain in zip(views, oracle, strict=True):
        torch.testing.assert_close(ours, plain, rtol=0, atol=2e-6)


@pytest.mark.parametrize("own", [False, True], ids=["shared numbers", "numbers of their own"])
@pytest.mark.parametrize("method", ["colod", "colud"])
def test_replicas_are_moved_apart(monkeypatch, device, method, own):
    """Also where every copy has its own step size, temperature, decay, radius and number."""

    def numbers(low: float, high: float) -> float | Tensor:
        return torch.linspace(low, high, 3, dtype=torch.float64).to(device) if own else low

    def build_replicas():
        torch.manual_seed(0)
        weights = [
            torch.randn(3, 4, 6) * 0.1,
            torch.randn(3, 5) * 0.1,
            torch.randn(3, 4, 5),
            torch.empty(3, 4, 6),
        ]
        cl.Orthogonal().init_(weights[3], init="draw", replicas=True)
        radius = torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1) if own else 1.0
        constraints = [cl.Circle(radius), cl.Free(), cl.Sphere(5.0), cl.Orthogonal()]
        return [
            {"params": [nn.Parameter(w.to(device))], "constraint": c, "replicas": 3, "first_replica": 2 * own}
            for w, c in zip(weights, constraints, strict=True)
        ]

    results = []
    for fuse in (True, False):
        with monkeypatch.context() as patch:
            if not fuse:
                patch.setattr(plan, "family", lambda entry, dynamics: None)
            groups = build_replicas()
            weights = [group["params"][0] for group in groups]
            options = {"temperature": numbers(0.01, 0.02), "weight_decay": numbers(0.1, 0.3), "seed": 5}
            if method == "colod":
                optimizer = cl.CoLod(groups, numbers(0.1, 0.2), **options)
            else:
                optimizer = cl.CoLud(groups, numbers(0.1, 0.2), friction=1.0, **options)
            for _ in range(2):
                for weight in weights:
                    weight.grad = torch.full_like(weight, 0.1)
                optimizer.step()
            assert bool(optimizer._plan.hosted) != fuse
            results.append([weight.detach() for weight in weights])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=0, atol=3e-5)
        assert not torch.allclose(ours[0], ours[1])


@pytest.mark.parametrize("method", ["colod", "colud"])
def test_groups_with_numbers_of_their_own_move_in_the_same_launches(monkeypatch, device, method):
    cases = [*ELEMENTWISE[:6], *(((4, 6), cl.Sphere(2.0)),) * 3, *(((5, 7), cl.Orthogonal()),) * 3]
    launches = []

    def make(groups: list[dict]):
        for number, group in enumerate(groups):
            # a third without noise, one weight with a temperature on the device
            group.update(lr=0.02 * (1 + number), temperature=0.01 * (number % 3))
        groups[1]["temperature"] = torch.tensor(0.01, device=device)
        if method == "colod":
            optimizer = cl.CoLod(groups, 0.1, seed=3)
        else:
            optimizer = cl.CoLud(groups, 0.1, friction=1.0, seed=3)
        optimizer.register_step_post_hook(
            lambda optimizer, *_: launches.append(len(optimizer._plan.watching))
        )
        return optimizer

    compare(monkeypatch, device, make, cases, torch.float32, ORTHOGONAL, size=0.3)
    # lines and circles with and without noise, spheres with and without, matrices
    assert launches[0] == 5


@pytest.mark.parametrize("constraint", [cl.Free(), cl.Circle(0.5), cl.Sphere(2.0), cl.Orthogonal()], ids=str)
def test_a_bad_gradient_moves_nothing_it_touches_and_is_reported(device, constraint):
    weight = torch.randn(4, 6) * 0.1
    constraint.init_(weight)
    parameter = nn.Parameter(weight.to(device))
    optimizer = cl.CoLud([{"params": [("w", parameter)], "constraint": constraint}], 0.1, friction=1.0)
    parameter.grad = torch.full_like(parameter, 0.1)
    parameter.grad[0, 0] = torch.nan
    before = parameter.detach().clone()
    optimizer.step()
    assert bool(parameter.isfinite().all())
    if not isinstance(constraint, cl.Orthogonal):
        assert parameter[0, 0] == before[0, 0]
    parameter.grad = torch.zeros_like(parameter)
    with pytest.raises(cl.NonFiniteError, match=r"parameter 'w' \(4, 6\): its gradient held NaN or Inf"):
        take_steps(optimizer, 12, device)


@pytest.mark.gpu
def test_a_hundred_steps_never_wait_for_the_device_and_replay_from_a_graph(waiting_is_an_error):
    device = torch.device("cuda")
    cases = [
        ((64, 64), cl.Circle(1.0)),
        ((64,), cl.Free()),
        ((32, 64), cl.Sphere(10.0)),
        ((40, 64), cl.Orthogonal()),
    ]
    results = []
    for captured in (False, True):
        groups = build(cases, torch.float32, device)
        optimizer = cl.CoLud(groups, 0.1, friction=1.0, temperature=1e-3, seed=0)
        for parameter in parameters(groups):
            parameter.grad = torch.randn(
                parameter.shape, generator=torch.Generator("cuda").manual_seed(7), device=device
            )
        optimizer.step()
        torch.cuda.synchronize()
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                optimizer.step()
            for _ in range(100):
                graph.replay()
        else:
            with waiting_is_an_error:
                take_steps(optimizer, 100, torch.device("cpu"))
        torch.cuda.synchronize()
        results.append([parameter.detach().clone() for parameter in parameters(groups)])
    for eager, replayed in zip(*results, strict=True):
        assert torch.equal(eager, replayed)


@pytest.mark.gpu
def test_a_captured_step_follows_a_learning_rate_on_the_device():
    device = torch.device("cuda")
    groups = build([((100,), cl.Circle(1.0)), ((100,), cl.Free())], torch.float32, device)
    optimizer = cl.CoLud(groups, torch.tensor(0.1, device=device), friction=1.0)
    for parameter in parameters(groups):
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    for group in optimizer.param_groups:
        group["lr"].fill_(0.0)
    before = [parameter.detach().clone() for parameter in parameters(groups)]
    graph.replay()
    torch.cuda.synchronize()
    for parameter, old in zip(parameters(groups), before, strict=True):
        torch.testing.assert_close(parameter.detach(), old, rtol=0, atol=1e-6)


def test_fused_projections_are_counted_as_the_plain_ones_are(monkeypatch, device):
    """Fallbacks are the same matrices; iterations are fewer, since the fused path stops at 1e-4."""
    cases = [((24, 18), cl.Orthogonal()), ((9, 20), cl.Orthogonal())]
    found = []
    for fused in (True, False):
        with monkeypatch.context() as patch:
            if not fused:
                patch.setattr(plan, "family", lambda entry, dynamics: None)
            groups = build(cases, torch.float32, device)
            optimizer = cl.CoLud(groups, 1.0, friction=1.0)
            monitor = cl.diagnostics.Monitor(optimizer)
            for size in (5e-4, 3.0):  # a short step, and one beyond quasi-Newton for both matrices
                for parameter in parameters(groups):
                    parameter.grad = size * torch.ones_like(parameter).cumsum(-1)
                monitor.record()
                optimizer.step()
        found.append(monitor.report().groups[0])
    assert found[0].fallbacks == found[1].fallbacks == 0.5
    assert 1 <= found[0].iterations <= found[1].iterations
