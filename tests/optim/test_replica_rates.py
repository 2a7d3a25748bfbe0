"""Rates with a number for each replica: each group has its own, and schedulers move each as if alone."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler, swa_utils

import colangevin as cl
from colangevin import schedules

RATES = torch.tensor([0.1, 0.02, 0.3], dtype=torch.float64)
STEPS = 12


def build():
    return nn.Linear(2, 2).double()


def together(lr=RATES, **options):
    """Three replicas in two groups, with a rate for each."""
    replicas = cl.Replicas(build, len(RATES), seed=0)
    options = {"friction": 1.0, "temperature": 0.1, "seed": 0, **options}
    return cl.CoLud(replicas.constrain({"weight": cl.Circle(2.0)}), lr, **options)


def alone(lr):
    groups = cl.constrain(build(), {"weight": cl.Circle(2.0)})
    return cl.CoLud(groups, lr, friction=1.0, temperature=0.1, seed=0)


def course(opt, scheduler):
    """The rates that the steps of each group use."""
    seen = []
    for _ in range(STEPS):
        seen.append([torch.as_tensor(group["lr"], dtype=torch.float64).clone() for group in opt.param_groups])
        opt.step()
        scheduler.step()
    return seen


def sequence(opt, lr):
    parts = [lr_scheduler.ConstantLR(opt, 0.1, 4), lr_scheduler.ExponentialLR(opt, 0.8)]
    return lr_scheduler.SequentialLR(opt, parts, [5])


def chain(opt, lr):
    return lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(opt, 0.2, total_iters=4), lr_scheduler.ExponentialLR(opt, 0.8)]
    )


# With the rate that each is built for: those that take rates take one for each replica.
SCHEDULERS = {
    "LambdaLR": lambda opt, lr: lr_scheduler.LambdaLR(opt, lambda n: 1 / (1 + n)),
    "MultiplicativeLR": lambda opt, lr: lr_scheduler.MultiplicativeLR(opt, lambda n: 0.9 - 0.01 * n),
    "StepLR": lambda opt, lr: lr_scheduler.StepLR(opt, 3, 0.1),
    "MultiStepLR": lambda opt, lr: lr_scheduler.MultiStepLR(opt, [2, 7], 0.1),
    "ConstantLR": lambda opt, lr: lr_scheduler.ConstantLR(opt, 0.3, 4),
    "LinearLR": lambda opt, lr: lr_scheduler.LinearLR(opt, 0.2, total_iters=6),
    "ExponentialLR": lambda opt, lr: lr_scheduler.ExponentialLR(opt, 0.7),
    "PolynomialLR": lambda opt, lr: lr_scheduler.PolynomialLR(opt, 9, 2.0),
    "CosineAnnealingLR": lambda opt, lr: lr_scheduler.CosineAnnealingLR(opt, 8, 1e-3),
    "CosineAnnealingWarmRestarts": lambda opt, lr: lr_scheduler.CosineAnnealingWarmRestarts(opt, 4, 2),
    "CyclicLR": lambda opt, lr: lr_scheduler.CyclicLR(opt, 0.1 * lr, lr, 3, cycle_momentum=False),
    "OneCycleLR": lambda opt, lr: lr_scheduler.OneCycleLR(opt, lr, total_steps=20, cycle_momentum=False),
    "SWALR": lambda opt, lr: swa_utils.SWALR(opt, 0.5, 5),
    "SequentialLR": sequence,
    "ChainedScheduler": chain,
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_torch_s_schedulers_move_each_replica_as_if_alone(name):
    opt = together()
    found = course(opt, SCHEDULERS[name](opt, RATES))
    for i, lr in enumerate(RATES.tolist()):
        single = alone(lr)
        expected = course(single, SCHEDULERS[name](single, lr))
        for seen, wanted in zip(found, expected, strict=True):
            assert [float(each[i]) for each in seen] == pytest.approx([float(x) for x in wanted], rel=1e-12)
    assert any(not torch.equal(found[0][0], seen[0]) for seen in found)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_resumed_scheduler_goes_on(name):
    """Optimizer and scheduler are saved half-way, read by ``weights_only`` and loaded into new ones."""
    whole = together()
    expected = course(whole, SCHEDULERS[name](whole, RATES))
    opt = together()
    scheduler = SCHEDULERS[name](opt, RATES)
    for _ in range(5):
        opt.step()
        scheduler.step()
    # lambdas and parts are not in a scheduler's state
    saved = pickle.dumps(opt.state_dict())
    last = copy.deepcopy(scheduler.state_dict())
    second = together()
    resumed = SCHEDULERS[name](second, RATES)
    second.load_state_dict(pickle.loads(saved))
    resumed.load_state_dict(last)
    seen = []
    for _ in range(STEPS - 5):
        seen.append([group["lr"].clone() for group in second.param_groups])
        second.step()
        resumed.step()
    for one, other in zip(seen, expected[5:], strict=True):
        assert all(map(torch.equal, one, other))


def test_a_scheduler_that_decides_by_one_number_says_so():
    opt = together()
    plateau = lr_scheduler.ReduceLROnPlateau(opt, patience=0)
    plateau.step(1.0)
    before = [group["lr"].clone() for group in opt.param_groups]
    with pytest.raises(cl.ConstraintError, match=r"each of 3 replicas was read as .* Use a scheduler"):
        plateau.step(1.0)
    assert all(torch.equal(group["lr"], old) for group, old in zip(opt.param_groups, before, strict=True))


def test_a_single_number_in_a_tensor_follows_a_plateau():
    opt = together(torch.tensor(0.1, dtype=torch.float64))
    plateau = lr_scheduler.ReduceLROnPlateau(opt, factor=0.1, patience=0)
    plateau.step(1.0)
    plateau.step(1.0)
    assert [float(group["lr"]) for group in opt.param_groups] == pytest.approx([0.01, 0.01])


# ---- each group its own --------------------------------------------------------------------------


def copies(opt):
    return {
        "new": opt,
        "deepcopy": copy.deepcopy(opt),
        "pickle": pickle.loads(pickle.dumps(opt)),
        "loaded": loaded(opt, opt.state_dict()),
        "from a file": loaded(opt, from_file(opt.state_dict())),
        "of shared rates": loaded(opt, shared(opt.state_dict())),
    }


def loaded(opt, state):
    other = together()
    other.load_state_dict(state)
    return other


def from_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


def shared(state):
    """As a state dict was before groups had rates of their own."""
    for group in state["param_groups"]:
        group["lr"] = RATES
    return state


@pytest.mark.parametrize("origin", ["new", "deepcopy", "pickle", "loaded", "from a file", "of shared rates"])
def test_the_recipe_multiplies_the_rates_of_every_group_once(origin):
    opt = copies(together(weight_decay=0.1 * RATES))[origin]
    assert len(opt.param_groups) == 2
    for group in opt.param_groups:
        group["lr"].mul_(0.1)
    assert all(torch.equal(group["lr"], 0.1 * RATES) for group in opt.param_groups)
    assert torch.equal(RATES, torch.tensor([0.1, 0.02, 0.3], dtype=torch.float64))
    lr_scheduler.ExponentialLR(opt, 0.5)
    lr_scheduler.StepLR(opt, 1)


def test_what_is_computed_copied_or_saved_is_a_plain_tensor():
    opt = together()
    lr = opt.param_groups[0]["lr"]
    assert type(lr * 2) is type(lr.clone()) is type(lr.double().sum()) is torch.Tensor
    assert type(pickle.loads(pickle.dumps(lr))) is torch.Tensor
    saved = from_file(opt.state_dict())["param_groups"][0]["lr"]
    assert type(saved) is torch.Tensor
    assert torch.equal(saved, RATES)


# ---- schedules of this library -------------------------------------------------------------------

COURSES = {
    "Constant": lambda opt: schedules.Constant(opt, 0.0, 4),
    "Linear": lambda opt: schedules.Linear(opt, 8, 0.0),
    "Cosine": lambda opt: schedules.Cosine(opt, 8, 0.1),
    "Exponential": lambda opt: schedules.Exponential(opt, 8, 0.01, option="friction"),
    "Cyclical": lambda opt: schedules.Cyclical(opt, 4),
}


@pytest.mark.parametrize("name", COURSES)
def test_schedules_move_each_replica_as_if_alone(name):
    def values(opt):
        schedule, seen = COURSES[name](opt), []
        for _ in range(STEPS):
            seen.append(schedule.get_last_value())
            schedule.step()
        return seen

    found = values(together(temperature=RATES, friction=10 * RATES))
    for i, rate in enumerate(RATES.tolist()):
        expected = values(together(temperature=rate, friction=10 * rate))
        for seen, wanted in zip(found, expected, strict=True):
            assert [float(each[i]) for each in seen] == pytest.approx(wanted, rel=1e-12, abs=1e-18)


def test_a_late_group_follows_its_own_rates():
    replicas = cl.Replicas(build, len(RATES), seed=0)
    weight, bias = replicas.parameters()
    opt = cl.CoLod([{"params": [weight], "replicas": 3}], 0.1, temperature=RATES, seed=0)
    schedule = schedules.Linear(opt, 4, 0.0)
    schedule.step()
    opt.add_param_group({"params": [bias], "replicas": 3, "temperature": RATES})
    schedule.step()
    for value in schedule.get_last_value():
        assert torch.equal(value, 0.5 * RATES)


def test_values_that_were_looked_up_stay_as_they_were():
    schedule = schedules.Linear(together(temperature=RATES), 4, 0.0)
    before = schedule.get_last_value()[0]
    schedule.step()
    assert torch.equal(before, RATES)


def test_rates_of_replicas_train_as_before():
    """The steps of a sweep are those of its replicas alone, with a scheduler beside."""
    replicas = cl.Replicas(build, len(RATES), seed=0)
    rules = {"weight": cl.Circle(2.0)}
    x = torch.randn(8, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    models = [replicas[i] for i in range(len(RATES))]
    opt = cl.CoLud(replicas.constrain(rules), RATES, friction=1.0, temperature=0.1, seed=0)
    train(opt, lambda: replicas(x).square().sum())
    for i, model in enumerate(models):
        groups = [{**group, "first_replica": i} for group in cl.constrain(model, rules)]
        single = cl.CoLud(groups, float(RATES[i]), friction=1.0, temperature=0.1, seed=0)
        train(single, lambda model=model: model(x).square().sum())
        torch.testing.assert_close(replicas[i].weight, model.weight, rtol=1e-12, atol=1e-12)


def train(opt, loss):
    scheduler = lr_scheduler.StepLR(opt, 3, 0.3)
    for _ in range(STEPS):
        opt.zero_grad()
        loss().backward()
        opt.step()
        scheduler.step()
