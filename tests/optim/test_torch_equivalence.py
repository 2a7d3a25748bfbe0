"""Free parameters follow ``torch.optim.AdamW`` and ``torch.optim.Muon``, in the weight's own dtype.

A real problem: a ReLU network of 64-32-10 units on scikit-learn's digits, 100 minibatches.
"""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import colangevin as cl

STEPS = 100
# Largest difference relative to the largest weight: rounding, which a hundred steps of training amplify. In
# bfloat16, whose steps are torch's operation by operation, one last digit.
TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 2**-8}

SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "constant": lambda opt: torch.optim.lr_scheduler.ConstantLR(opt, 1.0),
    "cosine": lambda opt: torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS),
    # this one cycles the first beta, or the momentum, as well
    "one cycle": lambda opt: torch.optim.lr_scheduler.OneCycleLR(opt, 0.02, total_steps=STEPS + 1),
}

each_dtype = pytest.mark.parametrize("dtype", TOLERANCES, ids=lambda dtype: str(dtype).removeprefix("torch."))
each_schedule = pytest.mark.parametrize("schedule", SCHEDULES)


@functools.cache
def digits() -> tuple[Tensor, Tensor]:
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x) / 16, torch.tensor(y)


def train(
    build: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
    schedule: str,
    dtype: torch.dtype,
    *,
    bias: bool,
    sign: float = 1.0,
) -> list[Tensor]:
    """The weights of a network after training on the loss times a sign."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32, bias=bias), nn.ReLU(), nn.Linear(32, 10, bias=bias)).to(dtype)
    batches = torch.Generator().manual_seed(1)
    x, y = digits()
    optimizer = build(list(model.parameters()))
    scheduler = SCHEDULES[schedule](optimizer)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(STEPS):
        batch = torch.randint(len(x), (32,), generator=batches)
        optimizer.zero_grad()
        (sign * nn.functional.cross_entropy(model(x[batch].to(dtype)), y[batch])).backward()
        optimizer.step()
        scheduler.step()
    after = [parameter.detach() for parameter in model.parameters()]
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    return after


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        difference = ((a - b).abs().max() / b.abs().max()).item()
        assert difference <= TOLERANCES[a.dtype], difference


@each_dtype
@each_schedule
@pytest.mark.parametrize("options", [{"weight_decay": 0.1}, {"betas": (0.8, 0.9), "eps": 1e-6}], ids=str)
def test_adam(dtype: torch.dtype, schedule: str, options: dict[str, Any]) -> None:
    options = {"weight_decay": 0.0, **options}
    ours = train(lambda p: cl.ConstrainedAdam(p, 0.01, **options), schedule, dtype, bias=True)
    # one parameter at a time: torch's other two paths round 16-bit weights elsewhere and end 0.14 from it
    theirs = train(lambda p: torch.optim.AdamW(p, 0.01, foreach=False, **options), schedule, dtype, bias=True)
    assert_same(ours, theirs)


@each_dtype
@each_schedule
@pytest.mark.parametrize(
    "options", [{"weight_decay": 0.1}, {"momentum": 0.8, "adjust_lr_fn": "match_rms_adamw"}], ids=str
)
def test_muon(dtype: torch.dtype, schedule: str, options: dict[str, Any]) -> None:
    options = {"weight_decay": 0.0, **options}
    ours = train(lambda p: cl.ConstrainedMuon(p, 0.01, **options), schedule, dtype, bias=False)
    assert_same(ours, train(lambda p: torch.optim.Muon(p, 0.01, **options), schedule, dtype, bias=False))


@each_dtype
@each_schedule
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_muon_without_nesterov(
    dtype: torch.dtype, schedule: str, decay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's Muon is given a copy of its average to orthogonalise.

    Of a bfloat16 weight, torch 2.13 orthogonalises the average itself and so divides the state by its norm in
    every step: the next gradient then counts by its size against 1, and a loss times 2 trains differently.
    """
    options = {"nesterov": False, "weight_decay": decay}
    orthogonalise = torch.optim._muon._zeropower_via_newtonschulz
    monkeypatch.setattr(
        torch.optim._muon,
        "_zeropower_via_newtonschulz",
        lambda average, *rest: orthogonalise(average.clone(), *rest),
    )
    ours = train(lambda p: cl.ConstrainedMuon(p, 0.01, **options), schedule, dtype, bias=False)
    assert_same(ours, train(lambda p: torch.optim.Muon(p, 0.01, **options), schedule, dtype, bias=False))


@each_dtype
@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_takes_no_notice_of_the_scale_of_the_loss(dtype: torch.dtype, nesterov: bool) -> None:
    """Bit for bit for a power of 2: what shows that the average is not normalised on the way."""
    once, twice = (
        train(
            lambda p: cl.ConstrainedMuon(p, 0.01, nesterov=nesterov), "cosine", dtype, bias=False, sign=scale
        )
        for scale in (1.0, 2.0)
    )
    assert all(torch.equal(a, b) for a, b in zip(once, twice, strict=True))


def test_vectors_under_muon_are_adam_s() -> None:
    """Matrices by Muon, biases by Adam, in one optimizer: as two of torch's side by side."""
    ours = train(
        lambda p: cl.ConstrainedMuon(p, 0.01, weight_decay=0.1, adam_betas=(0.8, 0.95), adam_eps=1e-6),
        "constant",
        torch.float64,
        bias=True,
    )

    class Both(torch.optim.Optimizer):
        def __init__(self, parameters: list[nn.Parameter]) -> None:
            super().__init__(parameters, {"lr": 0.01})
            matrices = [each for each in parameters if each.dim() == 2]
            vectors = [each for each in parameters if each.dim() < 2]
            self.both = (
                torch.optim.Muon(matrices, 0.01, weight_decay=0.1),
                torch.optim.AdamW(vectors, 0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
            )

        def step(self) -> None:  # type: ignore[override]
            for each in self.both:
                each.step()

    assert_same(ours, train(Both, "constant", torch.float64, bias=True))


@pytest.mark.parametrize("kind", [cl.ConstrainedAdam, cl.ConstrainedMuon])
def test_maximize_follows_the_gradient_up(kind: type[torch.optim.Optimizer]) -> None:
    down = train(lambda p: kind(p, 0.01, weight_decay=0.1), "constant", torch.float64, bias=True)
    up = train(
        lambda p: kind(p, 0.01, weight_decay=0.1, maximize=True),
        "constant",
        torch.float64,
        bias=True,
        sign=-1.0,
    )
    assert_same(up, down)


def test_a_group_by_adam_is_adam_s() -> None:
    def build(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return cl.ConstrainedMuon([{"params": parameters, "method": "adam", "lr": 0.003}], 0.02)

    ours = train(build, "cosine", torch.float64, bias=True)
    theirs = train(
        lambda p: torch.optim.AdamW(p, 0.003, weight_decay=0.0), "cosine", torch.float64, bias=True
    )
    assert_same(ours, theirs)


def test_kernels_are_flattened_to_matrices() -> None:
    kernel, matrix = (nn.Parameter(torch.linspace(-1, 1, 72, dtype=torch.float64)) for _ in range(2))
    kernel.data, matrix.data = kernel.data.view(4, 2, 3, 3), matrix.data.view(4, 18)
    ours, theirs = cl.ConstrainedMuon([kernel], 0.1), torch.optim.Muon([matrix], 0.1, weight_decay=0.0)
    g = torch.Generator().manual_seed(0)
    for _ in range(5):
        matrix.grad = torch.randn(4, 18, generator=g, dtype=torch.float64)
        kernel.grad = matrix.grad.view(4, 2, 3, 3).clone()
        ours.step()
        theirs.step()
    torch.testing.assert_close(kernel.detach().view(4, 18), matrix.detach(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", [cl.ConstrainedAdam, cl.ConstrainedMuon])
def test_late_gradients_have_their_own_count(kind: type[torch.optim.Optimizer]) -> None:
    """Bias corrections follow the steps of each parameter, also where a batched call moves several."""

    def run(together: bool) -> list[Tensor]:
        weights = [nn.Parameter(torch.eye(3, dtype=torch.float64)) for _ in range(2)]
        groups = [{"params": [weight], "constraint": cl.Orthogonal()} for weight in weights]
        optimizers = [kind(groups, 0.05)] if together else [kind([group], 0.05) for group in groups]
        g = torch.Generator().manual_seed(0)
        for step in range(6):
            for weight in weights:
                weight.grad = torch.randn(3, 3, generator=g, dtype=torch.float64)
            weights[1].grad = weights[1].grad if step in {2, 3, 5} else None
            for optimizer in optimizers:
                optimizer.step()
        return [weight.detach() for weight in weights]

    torch.testing.assert_close(run(together=True), run(together=False), rtol=1e-12, atol=1e-12)
