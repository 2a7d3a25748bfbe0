"""Schedules: their curves, torch's habits, groups, tensors and replicas, and errors by their text."""

import math
import warnings

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.schedules import Constant, Cosine, Cyclical, Exponential, Linear

STEPS = 8


def optimizer(temperature=0.4, friction=2.0, **options):
    return cl.CoLud(
        nn.Linear(3, 2).named_parameters(),
        lr=0.1,
        friction=friction,
        temperature=temperature,
        seed=1,
        **options,
    )


def overdamped():
    return cl.CoLod(nn.Linear(3, 2).named_parameters(), lr=0.1, temperature=0.4, seed=1)


def course(schedule, steps=STEPS):
    """The first group's numbers in the steps that the optimizer takes."""
    values = []
    for _ in range(steps):
        values.append(float(schedule.get_last_value()[0]))
        schedule.step()
    return values


@pytest.mark.parametrize(
    ("build", "factors"),
    [
        (lambda opt: Constant(opt, 0.0, 2), [0, 0, 1, 1, 1, 1, 1, 1]),
        (lambda opt: Linear(opt, 4, 0.0), [1, 0.75, 0.5, 0.25, 0, 0, 0, 0]),
        (lambda opt: Linear(opt, 2, 1.0, start=3.0), [3, 2, 1, 1, 1, 1, 1, 1]),
        (lambda opt: Cosine(opt, 4, 0.0), [(1 + math.cos(math.pi * n / 4)) / 2 for n in range(4)] + [0] * 4),
        (lambda opt: Exponential(opt, 2, 0.01), [1, 0.1] + [0.01] * 6),
        (lambda opt: Cyclical(opt, 4, explore=0.5), [0, 0, 1, 1, 0, 0, 1, 1]),
        (lambda opt: Cyclical(opt, 3, explore=0.34, factor=5.0), [5, 1, 1, 5, 1, 1, 5, 1]),
    ],
)
def test_the_curve(build, factors):
    assert course(build(optimizer())) == pytest.approx([0.4 * factor for factor in factors], abs=1e-15)


def test_friction_and_temperature_and_torch_s_lr_run_side_by_side():
    opt = optimizer()
    schedules = [
        Linear(opt, 4, 0.0),
        Linear(opt, 4, 3.0, option="friction"),
        torch.optim.lr_scheduler.StepLR(opt, 2, 0.5),
    ]
    seen = []
    for _ in range(4):
        seen.append([opt.param_groups[0][name] for name in ("temperature", "friction", "lr")])
        for parameter in opt.param_groups[0]["params"]:
            parameter.grad = torch.ones_like(parameter)
        opt.step()
        for schedule in schedules:
            schedule.step()
    expected = [[0.4, 2, 0.1], [0.3, 3, 0.1], [0.2, 4, 0.05], [0.1, 5, 0.05]]
    assert torch.allclose(torch.tensor(seen), torch.tensor(expected))


def test_every_group_follows_in_its_own_scale():
    first, second = nn.Linear(2, 2).parameters()
    opt = cl.CoLod([{"params": [first], "temperature": 1.0}, {"params": [second]}], 0.1, temperature=0.2)
    schedule = Linear(opt, 2, 0.0)
    schedule.step()
    assert schedule.get_last_value() == [0.5, 0.1]


def test_a_group_that_comes_late_starts_from_its_own_number():
    model = nn.Linear(2, 2)
    opt = cl.CoLod([model.weight], 0.1, temperature=torch.tensor(1.0))
    schedule = Linear(opt, 4, 0.0)
    schedule.step()
    opt.add_param_group({"params": [model.bias], "temperature": torch.tensor(2.0)})
    schedule.step()
    schedule.step()
    assert [float(value) for value in schedule.get_last_value()] == [0.25, 0.5]


def test_a_number_for_each_replica_is_written_in_place():
    """In the group's own copy: the tensor that was given stays as it is, and the group keeps its tensor."""
    replicas = cl.Replicas(lambda: nn.Linear(2, 1), 3, seed=0)
    tau = torch.tensor([0.1, 0.2, 0.4])
    opt = cl.CoLod(replicas.constrain({"weight": cl.Circle(2.0)}), 0.1, temperature=tau, seed=0)
    own = [group["temperature"] for group in opt.param_groups]
    assert len(own) == 2
    schedule = Constant(opt, 0.0, 1)
    assert [each.tolist() for each in own] == [[0, 0, 0], [0, 0, 0]]
    schedule.step()
    for group, each in zip(opt.param_groups, own, strict=True):
        assert group["temperature"] is each
        assert torch.equal(each, tau)
    assert torch.equal(tau, torch.tensor([0.1, 0.2, 0.4]))


def test_the_optimizer_follows_the_schedule():
    """A frozen run moves exactly when the temperature is not 0: there is no gradient."""
    model = nn.Linear(3, 2)
    opt = cl.CoLod(model.named_parameters(), 0.1, temperature=0.5, seed=0)
    schedule = Cyclical(opt, 4, explore=0.5)
    for step in range(STEPS):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        before = model.weight.detach().clone()
        opt.step()
        assert torch.equal(before, model.weight) == (step % 4 < 2)
        schedule.step()


def test_sampling_says_when_to_collect():
    schedule = Cyclical(optimizer(), 5, explore=0.4, settle=1)
    flags = []
    for _ in range(10):
        flags.append(schedule.sampling)
        schedule.step()
    assert flags == [False, False, False, True, True] * 2


def test_a_resumed_run_follows_the_same_course(tmp_path):
    def build():
        opt = optimizer(temperature=torch.tensor(0.4))
        return opt, Cosine(opt, 6, 0.1), Linear(opt, 6, 0.0, option="friction")

    whole = build()
    expected = [course(schedule) for schedule in whole[1:]]
    first = build()
    for schedule in first[1:]:
        course(schedule, 3)
    torch.save([part.state_dict() for part in first], tmp_path / "run.pt")
    second = build()
    saved = torch.load(tmp_path / "run.pt", weights_only=True)
    for part, state in zip(second, saved, strict=True):
        part.load_state_dict(state)
    assert [course(schedule, STEPS - 3) for schedule in second[1:]] == [each[3:] for each in expected]


def test_posterior_temperature_and_prior():
    assert cl.posterior_temperature(1000) == 1e-3
    assert cl.posterior_temperature(1000, 0.1) == pytest.approx(1e-4)
    assert cl.posterior_temperature(1000, 0.1, reduction="sum") == 0.1
    assert cl.posterior_temperature(1000, reduction="sum", batch=10) == 0.01
    assert cl.posterior_temperature(1000, batch=10) == 1e-3
    assert cl.prior_weight_decay(1000, 2.0) == pytest.approx(1 / 4000)
    assert cl.prior_weight_decay(1000, 2.0, reduction="sum", batch=10) == pytest.approx(1 / 400)


def test_the_convention_makes_a_gaussian_posterior():
    """e^{-V/tau} of a loss that is a mean over N is the posterior: compare its curvature with the exact."""
    x, deviation, T = torch.tensor([0.3, -1.2, 2.0, 0.7], dtype=torch.float64), 0.5, 0.25
    theta = torch.zeros((), dtype=torch.float64, requires_grad=True)
    exact = torch.autograd.functional.hessian(
        lambda t: (0.5 * (x - t).square()).sum() + t.square() / (2 * deviation**2), theta.detach()
    )
    for reduction, batch in (("mean", 4), ("mean", 2), ("sum", 4), ("sum", 2)):
        tau = cl.posterior_temperature(4, T, reduction=reduction, batch=batch)
        decay = cl.prior_weight_decay(4, deviation, reduction=reduction, batch=batch)
        losses = 0.5 * (x - theta).square()
        # the expected loss of a batch: batches of neighbours, averaged
        reduced = torch.stack([getattr(part, reduction)() for part in losses.split(batch)]).mean()
        grad = torch.autograd.grad(reduced, theta, create_graph=True)[0] + decay * theta
        curvature = torch.autograd.grad(grad, theta)[0] / tau
        assert float(curvature) == pytest.approx(float(exact) / T)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Linear(optimizer(), 0, 0.5), r"steps=0: must be a whole number of steps, at least 1"),
        (lambda: Linear(optimizer(), 5, -1.0), r"end=-1\.0: must be a finite factor, at least 0"),
        (lambda: Cosine(optimizer(), 5, 0.0, start=math.nan), r"start=nan: must be a finite factor"),
        (lambda: Exponential(optimizer(), 5, 0.0), r"end=0: an exponential never gets there; use Linear"),
        (lambda: Constant(optimizer(), True, 5), r"factor=True: must be a finite factor"),
        (lambda: Cyclical(optimizer(), 10, explore=1.0), r"explore=1\.0: must be a share, at least 0"),
        (lambda: Cyclical(optimizer(), 10, settle=-1), r"settle=-1: must be a whole number of steps"),
        (lambda: Cyclical(optimizer(), 10, settle=2), r"cycle=10: 8 steps of exploring and settle=2 leave"),
        (lambda: Linear(optimizer(temperature=0.0), 5, 0.0), r"temperature=0 in every group: a schedule"),
        (
            lambda: Linear(
                cl.CoLod(nn.Linear(1, 1).parameters(), 0.1, temperature=1.0), 5, 0.0, option="friction"
            ),
            r"option='friction': the option of CoLod to schedule is 'temperature'\.",
        ),
        (lambda: Linear(optimizer(), 5, 0.0, option="lr"), r"option='lr': .* 'temperature' or 'friction'"),
        (lambda: cl.posterior_temperature(0), r"data=0: must be the number of training data"),
        (lambda: cl.posterior_temperature(5, -1.0), r"T=-1\.0: must be finite and >= 0; 1 is the Bayes"),
        (lambda: cl.posterior_temperature(5, reduction="none"), r"reduction='none': must be 'mean' or 'sum'"),
        (lambda: cl.posterior_temperature(5, batch=6), r"batch=6: must be between 1 and data=5"),
        (lambda: cl.prior_weight_decay(5, 0.0), r"deviation=0\.0: must be positive and finite"),
    ],
)
def test_errors(build, message):
    with pytest.raises(cl.ConstraintError, match=message):
        build()


def test_another_library_s_optimizer_is_refused():
    with pytest.raises(TypeError, match=r"optimizer: a SGD; must be an optimizer of this library"):
        Linear(torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1), 5, 0.0)


def test_the_state_of_another_schedule_is_refused():
    schedule = Linear(optimizer(), 5, 0.0)
    for other in (Cyclical(optimizer(), 10), Linear(optimizer(), 5, 0.0, option="friction")):
        with pytest.raises(cl.ConstraintError, match=r"state dict: it has .*, a Linear has steps=5"):
            schedule.load_state_dict(other.state_dict())
    assert schedule.last_step == 0


def test_no_warning_beside_torch_s_scheduler():
    opt = optimizer()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restarts = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 4)
        schedule = Cyclical(opt, 4, explore=0.5)
        for _ in range(8):
            opt.step()
            schedule.step()
            restarts.step()
    assert opt.param_groups[0]["lr"] == pytest.approx(0.1)
