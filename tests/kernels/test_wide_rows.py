"""Fused steps of rows that many programs work on."""

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.step import plan
from colangevin.step.fused import eligible
from tests.kernels.beside_plain import LIES, LOOSE, OPTIMIZERS, assert_close, run, take_steps

SPHERES = {
    "rows": cl.Sphere(2.0, slack=False),
    "rows with slack": cl.Sphere(9.0),
    "rows with radii": cl.Sphere(torch.tensor([1.0, 2.0]), slack=False),
    "columns": cl.Sphere(over="columns"),
    "matrix": cl.Sphere(over="matrix"),
    "matrix with slack": cl.Sphere(30.0, over="matrix"),
}


@pytest.fixture(autouse=True)
def every_row_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than two entries are shared by programs."""
    monkeypatch.setattr(eligible, "_WIDEST_ROW", 2)


def shape_on(device: torch.device) -> tuple[int, int]:
    """Rows of three pieces, the last of which is not full."""
    return (2, 9001) if device.type == "cuda" else (2, 75)


def mover(optimizer: str) -> str:
    return "AdamWideMover" if optimizer == "Adam" else "WideMover"


@pytest.mark.parametrize("optimizer", ["SGD", "CoLod", "BAOAB", "Adam"])
@pytest.mark.parametrize("constraint", SPHERES)
def test_every_slice(monkeypatch, device, constraint, optimizer):
    held, make = SPHERES[constraint], OPTIMIZERS[optimizer]
    rows, entries = shape_on(device)
    shape = (entries, rows + 1) if constraint == "columns" else (rows, entries)
    assert_close(monkeypatch, mover(optimizer), held, make, shape, device, tolerance=LOOSE)


@pytest.mark.parametrize("lies", ["channels last", "transposed"])
@pytest.mark.parametrize("optimizer", ["OBA", "Adam"])
@pytest.mark.parametrize("constraint", ["matrix", "columns"])
def test_weights_of_any_dense_layout(device, constraint, optimizer, lies):
    shape, lie = LIES[lies]
    ours, movers = run(SPHERES[constraint], OPTIMIZERS[optimizer], shape, device, lies=lie)
    contiguous, _ = run(SPHERES[constraint], OPTIMIZERS[optimizer], shape, device)
    assert movers == [mover(optimizer)]
    for key, value in contiguous.items():
        assert torch.equal(ours[key], value), key


@pytest.mark.parametrize("optimizer", ["OBA", "Adam"])
@pytest.mark.parametrize("constraint", ["rows", "matrix with slack"])
def test_weights_of_16_bits(monkeypatch, device, constraint, optimizer):
    held, make, options = SPHERES[constraint], OPTIMIZERS[optimizer], {"dtype": torch.bfloat16}
    shape = shape_on(device)
    assert_close(monkeypatch, mover(optimizer), held, make, shape, device, tolerance=1.6e-2, **options)


@pytest.mark.parametrize("optimizer", ["CoLod", "BAOAB", "Adam"])
def test_a_step_is_nearly_that_of_one_program(monkeypatch, device, optimizer):
    shape = (2, 75)
    for held in (SPHERES["rows"], SPHERES["rows with slack"]):
        ours, _ = run(held, OPTIMIZERS[optimizer], shape, device)
        with monkeypatch.context() as patch:
            patch.setattr(eligible, "_WIDEST_ROW", 1000)
            other, movers = run(held, OPTIMIZERS[optimizer], shape, device)
        assert movers[0] in ("SphereMover", "AdamSphereMover")
        for key, value in other.items():
            torch.testing.assert_close(ours[key], value, rtol=0, atol=LOOSE)


@pytest.mark.parametrize("optimizer", ["OBA", "CoLod", "Adam"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weights_that_others_wrote(monkeypatch, device, optimizer, dtype):
    assert_close(
        monkeypatch,
        mover(optimizer),
        cl.Sphere(9.0),
        OPTIMIZERS[optimizer],
        (3, 40),
        device,
        dtype=dtype,
        edit=lambda weight: weight.data[1].mul_(0.5),
        tolerance=LOOSE if dtype == torch.float32 else 1.6e-2,
    )


@pytest.mark.parametrize("optimizer", ["OBA", "CoLod", "Adam"])
@pytest.mark.parametrize("constraint", ["rows", "rows with slack"])
def test_a_bad_gradient_leaves_its_row_as_it_was(device, constraint, optimizer):
    weight = nn.Parameter(SPHERES[constraint].init_(0.1 * torch.randn(4, 45), init="nearest").to(device))
    make = OPTIMIZERS[optimizer]
    stepped = make([{"params": [("w", weight)], "constraint": SPHERES[constraint]}])
    weight.grad = torch.ones_like(weight)
    stepped.step()
    before = weight.detach().clone()
    kept = {key: value.clone() for key, value in stepped.state[weight].items()}
    weight.grad[1, 40] = torch.inf
    stepped.step()
    assert torch.equal(weight[1], before[1])
    assert not bool((weight == before).all(1)[[0, 2, 3]].any())
    for key, value in kept.items():
        if key != "step":
            mine = stepped.state[weight][key].reshape(4, -1)
            assert torch.equal(mine[1], value.reshape(4, -1)[1]), key
            assert bool(mine.isfinite().all())
    weight.grad = torch.zeros_like(weight)
    with pytest.raises(cl.NonFiniteError, match=r"parameter 'w' \(4, 45\): its gradient held NaN or Inf"):
        take_steps(stepped, 12, device)


@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("optimizer", ["SGD", "OBA", "Adam"])
def test_gradients_along_the_normal_leave_the_norm(device, optimizer, size):
    weight = nn.Parameter(SPHERES["rows"].init_(torch.randn(4, 45)).to(device))
    stepped = OPTIMIZERS[optimizer]([{"params": [weight], "constraint": SPHERES["rows"]}])
    for _ in range(4):
        weight.grad = size * weight.detach()
        stepped.step()
    assert SPHERES["rows"].violation(weight) <= 1e-6


@pytest.mark.parametrize("optimizer", ["OBA", "Adam"])
def test_replicas_with_radii_of_their_own(monkeypatch, device, optimizer):
    def moved(fuse: bool) -> torch.Tensor:
        torch.manual_seed(0)
        constraint = cl.Sphere(torch.tensor([[1.0], [2.0], [3.0]]), slack=False)
        weight = nn.Parameter(constraint.init_(torch.randn(3, 2, 20), replicas=True).to(device))
        stepped = OPTIMIZERS[optimizer]([{"params": [weight], "constraint": constraint, "replicas": 3}])
        with monkeypatch.context() as patch:
            if not fuse:
                patch.setattr(plan, "family", lambda entry, dynamics: None)
            for _ in range(2):
                weight.grad = torch.linspace(-1, 1, weight.numel()).view_as(weight).to(device)
                stepped.step()
            assert bool(stepped._plan.hosted) != fuse
        return weight.detach()

    torch.testing.assert_close(moved(True), moved(False), rtol=0, atol=LOOSE)


def test_a_splitting_with_two_os_takes_the_plain_path(monkeypatch, device):
    monkeypatch.setattr(plan, "native", lambda entry, dynamics: False)

    def make(groups):
        return cl.CoLud(groups, 0.1, friction=1.0, temperature=0.01, splitting="OBOA", seed=3)

    assert run(SPHERES["rows"], make, (4, 45), device)[1] == ["Plain"]
    assert run(cl.Circle(1.0), make, (4, 45), device)[1] == ["ElementwiseMover"]


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_gives_the_same_bits_every_time_and_replays_from_a_graph(optimizer, waiting_is_an_error):
    device, held = torch.device("cuda"), SPHERES["matrix with slack"]

    def build() -> tuple[nn.Parameter, torch.optim.Optimizer]:
        torch.manual_seed(0)
        weight = nn.Parameter((0.01 * torch.randn(64, 1000)).to(device))
        weight.grad = torch.randn(64, 1000).to(device)
        made = OPTIMIZERS[optimizer]([{"params": [weight], "constraint": held}])
        made.step()
        torch.cuda.synchronize()
        return weight, made

    (ours, captured), (theirs, eager) = build(), build()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured.step()
    with waiting_is_an_error:
        for _ in range(3):
            graph.replay()
            eager.step()
    torch.cuda.synchronize()
    assert torch.equal(ours, theirs)
