"""What every optimizer promises as a ``torch.optim.Optimizer``, over the table of ``optim_db``.

What torch's own tests ask besides, of every optimizer there is, is in ``torch_contract/``.
"""

import copy
import io
import math
import pickle

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints.dtypes import state_dtype
from colangevin.dynamics.letters import drift, kick, ornstein_uhlenbeck
from tests.optim_db import (
    CONSTRAINTS,
    DTYPES,
    ConstraintCase,
    OptimizerCase,
    Problem,
    assert_identical,
    by_id,
    check_feasible,
    each_constraint,
    each_dtype,
    each_optimizer,
    snapshot,
    start,
    train,
    whole_table,
)

COARSE = (torch.bfloat16, torch.float16)
QUIET = OptimizerCase("quiet", cl.ConstrainedSGD, {"lr": 0.05, "momentum": 0.9, "temperature": 0.0})
OBA = by_id("colud-OBA")
NOISY = by_id("colud-BAOAB-noisy")


def through_file(value: object) -> object:
    """Saved and loaded the safe way."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


# ---- invariants -----------------------------------------------------------------------------------


@whole_table
def test_every_step_is_feasible_and_goes_down(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, opt = start(optimizer, constraint, torch.float64)
    before = problem().item()
    train(problem, opt, 12)
    assert problem().item() < before


@whole_table
def test_every_dtype(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    for dtype in DTYPES:
        problem, opt = start(optimizer, constraint, dtype)
        train(problem, opt, 2)
        assert problem.weight.dtype == dtype
        tensors = [v for state in opt.state.values() for k, v in state.items() if k != "step"]
        assert {t.dtype for t in tensors} <= {state_dtype(dtype)}


@each_constraint
def test_every_letter_is_feasible(constraint: ConstraintCase) -> None:
    weight = constraint.weight(torch.float64).unsqueeze(0)
    geometry = constraint.constraint.on(weight.shape[1:])
    g = torch.Generator().manual_seed(3)
    q = geometry.lift(weight)
    p = torch.zeros_like(q)

    def feasible(q: Tensor, p: Tensor) -> bool:
        lowered = geometry.lower(q)
        return bool(geometry.residual(lowered, q) <= 1e-13) and bool(geometry.cotangency(q, p) <= 1e-13)

    assert feasible(q, p)
    for _ in range(10):
        noise = torch.randn(q.shape, generator=g, dtype=q.dtype)
        p = ornstein_uhlenbeck(geometry, q, p, 0.8, 0.6, noise)
        assert feasible(q, p)
        p = kick(geometry, q, p, torch.randn(weight.shape, generator=g, dtype=q.dtype), 0.3)
        assert feasible(q, p)
        q, p = drift(geometry, q, p, 0.3)
        assert feasible(q, p)
    assert (q - geometry.lift(weight)).abs().max() > 0.1


# ---- resuming -------------------------------------------------------------------------------------


@whole_table
def test_resume_is_bitwise(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    for dtype in (torch.float64, torch.float32):
        check_resume(optimizer, constraint, dtype)


@pytest.mark.parametrize("dtype", COARSE, ids=["bf16", "fp16"])
@each_constraint
@pytest.mark.parametrize("optimizer", [by_id("colod-noisy"), NOISY], ids=lambda case: case.id)
def test_resume_of_coarse_weights_is_bitwise_with_float32_state(
    optimizer: OptimizerCase, constraint: ConstraintCase, dtype: torch.dtype
) -> None:
    check_resume(optimizer, constraint, dtype)


def check_resume(optimizer: OptimizerCase, constraint: ConstraintCase, dtype: torch.dtype) -> None:
    problem, opt = start(optimizer, constraint, dtype)
    train(problem, opt, 3)
    saved = through_file({"model": problem.state_dict(), "optimizer": opt.state_dict()})
    train(problem, opt, 3)

    resumed = Problem(constraint, dtype, seed=1)
    fresh = optimizer.build(resumed.groups(), seed=None)
    resumed.load_state_dict(saved["model"])
    fresh.load_state_dict(saved["optimizer"])
    for state in fresh.state.values():
        assert all(v.dtype == state_dtype(dtype) for k, v in state.items() if k != "step")
    train(resumed, fresh, 3)
    assert_identical(snapshot(fresh), snapshot(opt))


@pytest.mark.parametrize("lr", [0.02, 1.0])  # the quasi-Newton and the polar projection
@pytest.mark.parametrize("shape", [(128, 64), (64, 64, 3, 3)])
def test_resume_of_large_orthogonal_weights_is_bitwise(shape: tuple[int, ...], lr: float) -> None:
    case = ConstraintCase("", cl.Orthogonal(), lambda g: nn.init.orthogonal_(torch.empty(shape), generator=g))
    optimizer = OptimizerCase("", cl.CoLud, {"lr": lr, "friction": 1.0, "temperature": 0.01, "seed": 1})
    check_resume(optimizer, case, torch.float32)
    check_resume(optimizer, case, torch.float64)


@pytest.mark.parametrize("weights_first", [True, False])
def test_model_and_optimizer_load_in_either_order(weights_first: bool) -> None:
    problem, opt = start(NOISY, by_id("sphere-slack"))
    train(problem, opt, 2)
    resumed, fresh = Problem(by_id("sphere-slack"), seed=1), None
    fresh = NOISY.build(resumed.groups())
    loads = [
        lambda: resumed.load_state_dict(problem.state_dict()),
        lambda: fresh.load_state_dict(opt.state_dict()),
    ]
    for load in loads if weights_first else reversed(loads):
        load()
    train(problem, opt, 2)
    train(resumed, fresh, 2)
    assert_identical(snapshot(fresh), snapshot(opt))


@whole_table
def test_deepcopy_and_pickle_continue_bitwise(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 2)
    copies = [copy.deepcopy((problem, opt)), pickle.loads(pickle.dumps((problem, opt)))]
    train(problem, opt, 3)
    for other_problem, other in copies:
        train(other_problem, other, 3)
        assert_identical(snapshot(other), snapshot(opt))


# ---- gradients ------------------------------------------------------------------------------------


@whole_table
def test_gradients_are_never_modified(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, opt = start(optimizer, constraint, weight_decay=0.1, maximize=True)
    problem.backward()
    if not constraint.manifold.fallible:  # there the shorter and shorter steps take a second
        problem.weight.grad[0] *= 1e15  # far beyond what is cut internally
    grads = [problem.weight.grad, problem.bias.grad]
    before = [g.clone() for g in grads]
    opt.step()
    check_feasible(opt)
    assert problem.weight.grad is grads[0]
    assert_identical(grads, before)


@whole_table
def test_missing_gradient_leaves_a_parameter_untouched(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 2)
    before = snapshot(opt)
    problem.backward()
    problem.weight.grad = None
    opt.step()
    after = snapshot(opt)
    assert_identical(after["weights"][0], before["weights"][0])
    assert_identical(after["state"][0], before["state"][0])
    assert not torch.equal(after["weights"][1], before["weights"][1])


@whole_table
def test_late_gradient_starts_as_if_the_run_began_then(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    late, late_opt = start(optimizer, constraint)
    for _ in range(3):
        late.backward()
        late.weight.grad = None
        late_opt.step()
    assert late.weight not in late_opt.state
    train(late, late_opt, 2)
    prompt, opt = start(optimizer, constraint)
    train(prompt, opt, 2)
    assert_identical(late.weight.detach(), prompt.weight.detach())


def test_no_gradients_at_all_is_no_step() -> None:
    _, opt = start(NOISY, by_id("circle"))
    before = snapshot(opt)
    opt.step()
    assert_identical(snapshot(opt), before)


@each_constraint
def test_frozen_parameter_stays(constraint: ConstraintCase) -> None:
    problem = Problem(constraint)
    problem.weight.requires_grad_(False)
    opt = NOISY.build(problem.groups())
    before = problem.weight.detach().clone()
    train(problem, opt, 2)
    assert_identical(problem.weight.detach(), before)
    problem.weight.requires_grad_(True)
    train(problem, opt, 1)
    assert not torch.equal(problem.weight, before)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(set_to_none: bool) -> None:
    problem, opt = start(OBA, by_id("circle"))
    problem.backward()
    opt.zero_grad(set_to_none=set_to_none)
    grad = problem.weight.grad
    assert grad is None if set_to_none else not grad.any()


@whole_table
def test_maximize_is_the_negated_gradient(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    up, up_opt = start(optimizer, constraint, maximize=True)
    down, down_opt = start(optimizer, constraint)
    for _ in range(2):
        up.backward()
        down.backward()
        for parameter in down.parameters():
            parameter.grad.neg_()
        up_opt.step()
        down_opt.step()
    assert_identical(list(up.state_dict().values()), list(down.state_dict().values()))
    assert up().item() > Problem(constraint)().item()


def test_maximize_by_group() -> None:
    problem = Problem(by_id("circle"))
    groups = problem.groups()
    groups[1]["maximize"] = True
    opt = by_id("sgd").build(groups)
    bias = problem.bias.detach().clone()
    problem.backward()
    opt.step()
    torch.testing.assert_close(problem.bias.detach(), 1.05 * bias)


@whole_table
def test_weight_decay_adds_the_weight_to_the_gradient(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    decayed, decayed_opt = start(optimizer, constraint, torch.float64, weight_decay=0.3)
    plain, plain_opt = start(optimizer, constraint, torch.float64)
    for _ in range(2):
        decayed.backward()
        plain.backward()
        for parameter in plain.parameters():
            parameter.grad.add_(parameter.detach(), alpha=0.3)
        decayed_opt.step()
        plain_opt.step()
    torch.testing.assert_close(decayed.state_dict(), plain.state_dict(), rtol=1e-13, atol=1e-13)


# ---- groups ---------------------------------------------------------------------------------------


@whole_table
def test_group_added_mid_run_does_not_disturb_the_others(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    alone, alone_opt = start(optimizer, constraint)
    train(alone, alone_opt, 4)
    problem, opt = start(optimizer, constraint)
    train(problem, opt, 2)
    added = Problem(constraint, seed=5)
    opt.add_param_group(
        {"params": [("added", added.weight)], "constraint": constraint.constraint, "lr": 0.01}
    )
    for _ in range(2):
        added.backward()
        train(problem, opt, 1)
    torch.testing.assert_close(problem.weight, alone.weight, rtol=1e-5, atol=1e-6)
    assert_identical(problem.bias.detach(), alone.bias.detach())
    assert opt.state[added.weight]["step"] == 2
    assert not torch.equal(added.weight, constraint.weight(seed=5))


@pytest.mark.parametrize("constraint", [c for c in CONSTRAINTS if not c.manifold.stacks], ids=lambda c: c.id)
def test_noise_of_a_parameter_does_not_depend_on_groups_after_it(constraint: ConstraintCase) -> None:
    alone, alone_opt = start(NOISY, constraint)
    train(alone, alone_opt, 3)
    problem, other = Problem(constraint), Problem(constraint, seed=5)
    opt = NOISY.build([*problem.groups(), {"params": [("other", other.weight)], "constraint": cl.Free()}])
    for _ in range(3):
        other.backward()
        train(problem, opt, 1)
    assert_identical(problem.state_dict()["weight"], alone.state_dict()["weight"])


def test_noise_differs_between_parameters_steps_and_seeds() -> None:
    def displacement(seed: int, steps: int) -> Tensor:
        weights = [nn.Parameter(torch.zeros(50)) for _ in range(2)]
        opt = cl.CoLod(weights, 0.1, temperature=1.0, seed=seed)
        for _ in range(steps):
            before = [w.detach().clone() for w in weights]
            for weight in weights:
                weight.grad = torch.zeros(50)
            opt.step()
        return torch.stack([w.detach() - b for w, b in zip(weights, before, strict=True)])

    draws = torch.cat([displacement(1, 1), displacement(1, 2), displacement(2, 1)])
    correlation = torch.corrcoef(draws) - torch.eye(6)
    assert correlation.abs().max() < 0.7  # |corr| of 50 pairs has a standard deviation of 0.14


def test_seed_none_follows_manual_seed_and_is_stored() -> None:
    def run(seed: int | None) -> tuple[Tensor, int]:
        torch.manual_seed(3)
        problem, opt = start(NOISY, by_id("circle"), seed=seed)
        train(problem, opt, 2)
        return problem.weight.detach(), opt.state_dict()["param_groups"][0]["seed"]

    (first, seed), (again, same) = run(None), run(None)
    assert seed == same
    assert_identical(first, again)
    assert_identical(run(seed)[0], first)


def test_every_option_may_differ_by_group() -> None:
    def parameter() -> nn.Parameter:
        return nn.Parameter(torch.full((3,), 0.2))

    options = [
        {"lr": 0.1, "friction": 1.0, "splitting": "OBA"},
        {"lr": 0.3, "friction": 0.5, "splitting": "BAOAB", "weight_decay": 0.1, "maximize": True},
        {"lr": 0.2, "friction": 2.0, "splitting": "BOA", "constraint": cl.Circle(1.0)},
    ]
    together = [{"params": [parameter()], **each} for each in options]
    opt = cl.CoLud(together, lr=1.0, friction=1.0)
    for _ in range(3):
        for group in opt.param_groups:
            group["params"][0].grad = torch.ones(3)
        opt.step()
    for group, each in zip(together, options, strict=True):
        weight = parameter()
        alone = cl.CoLud([{"params": [weight], **each}], lr=1.0, friction=1.0)
        for _ in range(3):
            weight.grad = torch.ones(3)
            alone.step()
        assert_identical(weight.detach(), group["params"][0].detach())


def test_tied_weights_move_once() -> None:
    torch.manual_seed(0)
    embedding, head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    nn.init.uniform_(embedding.weight, -0.4, 0.4)
    head.weight = embedding.weight
    model = nn.Sequential(embedding, head)
    opt = cl.CoLud(cl.constrain(model, {"*weight": cl.Circle(0.5)}), 0.1, friction=1.0)
    model(torch.arange(5)).square().sum().backward()
    opt.step()
    assert [len(group["params"]) for group in opt.param_groups] == [1]
    assert opt.state[embedding.weight]["step"] == 1
    check_feasible(opt)


# ---- edits from outside ---------------------------------------------------------------------------


def edit_in_place(problem: Problem, weight: Tensor) -> None:
    with torch.no_grad():
        problem.weight.copy_(weight)


def edit_by_load(problem: Problem, weight: Tensor) -> None:
    problem.load_state_dict({**problem.state_dict(), "weight": weight})


def edit_data_in_place(problem: Problem, weight: Tensor) -> None:
    problem.weight.data.copy_(weight)


def edit_data_by_replacing(problem: Problem, weight: Tensor) -> None:
    problem.weight.data = weight.clone()


EDITS = (edit_in_place, edit_by_load, edit_data_in_place, edit_data_by_replacing)
each_edit = pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
SCHEMES = (by_id("colod"), OBA, by_id("colud-BAOAB"), by_id("sgd-momentum"))


@each_edit
@each_dtype
@each_constraint
def test_feasible_edit_is_respected(constraint: ConstraintCase, dtype: torch.dtype, edit: object) -> None:
    for optimizer in SCHEMES:
        problem, opt = start(optimizer, constraint, dtype)
        train(problem, opt, 3)
        edited = constraint.weight(dtype, seed=9)
        edit(problem, edited)
        for state in opt.state.values():
            if "momentum" in state:
                state["momentum"].zero_()
        problem.zero_grad(set_to_none=False)
        opt.step()
        error = (problem.weight - edited).abs().max().item()
        assert error <= 8 * torch.finfo(dtype).eps * edited.abs().max().item()
        train(problem, opt, 1)


@each_edit
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bf16"])
@pytest.mark.parametrize("constraint", CONSTRAINTS[1:], ids=lambda case: case.id)
def test_infeasible_edit_is_an_error_that_changes_nothing(
    constraint: ConstraintCase, dtype: torch.dtype, edit: object
) -> None:
    for optimizer in SCHEMES:
        problem, opt = start(optimizer, constraint, dtype)
        train(problem, opt, 2)
        ramp = torch.linspace(10, 20, problem.weight.numel()).view_as(problem.weight)
        edit(problem, (ramp * constraint.weight(dtype, seed=9)).to(dtype))
        before = snapshot(opt)
        problem.backward()
        with pytest.raises(cl.InfeasibleError, match="parameter 'weight'"):
            opt.step()
        assert_identical(snapshot(opt), before)


def test_edit_keeps_the_side_of_the_slack() -> None:
    weight = nn.Parameter(torch.tensor([0.6, -0.6], dtype=torch.float64))
    opt = cl.CoLud([{"params": [weight], "constraint": cl.Circle(1.0)}], 0.1, friction=0.0)
    weight.grad = torch.zeros_like(weight)
    opt.step()
    opt.state[weight]["position"].copy_(math.pi - opt.state[weight]["position"])  # the same weight, xi < 0
    with torch.no_grad():
        weight.copy_(torch.tensor([0.3, -0.6]))
    opt.step()
    assert (opt.state[weight]["position"].cos() < 0).all()


# ---- closures -------------------------------------------------------------------------------------


@each_optimizer
def test_closure_is_called_once_with_gradients_enabled(optimizer: OptimizerCase) -> None:
    problem, opt = start(optimizer, by_id("orthogonal-tall"))
    plain, plain_opt = start(optimizer, by_id("orthogonal-tall"))
    enabled = []

    def closure() -> Tensor:
        enabled.append(torch.is_grad_enabled())
        problem.backward()
        return problem()

    expected = problem().detach()
    with torch.no_grad():
        loss = opt.step(closure)
        assert not torch.is_grad_enabled()
    train(plain, plain_opt, 1)
    assert enabled == [True]
    assert_identical(loss.detach(), expected)
    assert_identical(snapshot(opt), snapshot(plain_opt))


@pytest.mark.parametrize(("splitting", "calls"), [("ABO", 2), ("BABO", 2), ("ABABO", 3), ("OABAOB", 3)])
@each_constraint
def test_kicks_after_drifts_ask_the_closure_again(
    constraint: ConstraintCase, splitting: str, calls: int
) -> None:
    problem, opt = start(OBA, constraint, torch.float64, splitting=splitting)
    q, p = by_letters(constraint, splitting, 3)
    count = 0

    def closure() -> Tensor:
        nonlocal count
        count += 1
        problem.backward()
        return problem()

    for step in range(3):
        start_loss = problem().item()
        loss = opt.step(closure)
        assert loss.item() == start_loss
        assert count == calls * (step + 1)
        check_feasible(opt)
    expected = constraint.constraint.on(problem.weight.shape).lower(q)[0]
    torch.testing.assert_close(problem.weight.detach(), expected, rtol=1e-11, atol=1e-11)
    momentum = opt.state[problem.weight]["momentum"]
    torch.testing.assert_close(momentum, p.reshape(momentum.shape), rtol=1e-10, atol=1e-10)
    assert opt.state[problem.weight]["step"] == 3


def by_letters(constraint: ConstraintCase, splitting: str, steps: int) -> tuple[Tensor, Tensor]:
    """The steps of the table's OBA options letter by letter, with the gradient wherever the weight is."""
    problem = Problem(constraint, torch.float64)
    geometry = constraint.constraint.on(problem.weight.shape)
    h, gamma = OBA.options["lr"], OBA.options["friction"]
    q = geometry.lift(problem.weight.detach().unsqueeze(0))
    p = torch.zeros_like(q)
    for letter in splitting * steps:
        share = h / splitting.count(letter)
        if letter == "A":
            q, p = drift(geometry, q, p, share)
        elif letter == "B":
            weight = geometry.lower(q)
            p = kick(geometry, q, p, weight - problem.target, share)
        else:
            p = ornstein_uhlenbeck(geometry, q, p, math.exp(-gamma * share), 0.0, None)
    return q, p


def test_groups_with_different_splittings_share_the_closure() -> None:
    problem = Problem(by_id("circle"))
    groups = problem.groups()
    groups[0]["splitting"] = "ABO"
    opt = OBA.build(groups)
    plain, plain_opt = start(OBA, by_id("circle"))

    def closure() -> Tensor:
        problem.backward()
        return problem()

    opt.step(closure)
    train(plain, plain_opt, 1)
    assert_identical(problem.bias.detach(), plain.bias.detach())
    assert opt.state[problem.bias]["step"] == opt.state[problem.weight]["step"] == 1


@each_constraint
def test_failure_after_the_first_segment_restores_everything(constraint: ConstraintCase) -> None:
    """The second gradient of a step is NaN: weights and state are those of before the step."""
    problem, opt = start(NOISY, constraint, splitting="ABO")
    calls = 0

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        problem.backward()
        if calls == 4:
            problem.bias.grad.fill_(math.nan)
        return problem()

    opt.step(closure)
    before = snapshot(opt)
    with pytest.raises(cl.NonFiniteError, match="'bias'"):
        opt.step(closure)
    assert_identical(snapshot(opt), before)

    other, other_opt = start(NOISY, constraint, splitting="ABO")

    def other_closure() -> Tensor:
        other.backward()
        return other()

    other_opt.step(other_closure)
    for _ in range(2):
        opt.step(closure)
        other_opt.step(other_closure)
    assert_identical(snapshot(opt), snapshot(other_opt))


def test_first_step_that_fails_half_way_leaves_no_state() -> None:
    problem, opt = start(OBA, by_id("circle"), splitting="ABO")
    before = snapshot(opt)

    def closure() -> Tensor:
        problem.backward()
        if opt.state.get(problem.weight):
            raise RuntimeError("out of data")
        return problem()

    with pytest.raises(RuntimeError, match="out of data"):
        opt.step(closure)
    assert_identical(snapshot(opt), before)


# ---- layouts and shapes ---------------------------------------------------------------------------


@whole_table
def test_non_contiguous_parameter(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    plain, plain_opt = start(optimizer, constraint)
    problem = Problem(constraint)
    weight = problem.weight.detach()
    view = weight.transpose(0, 1).contiguous().transpose(0, 1)
    assert not view.is_contiguous()
    problem.weight = nn.Parameter(view)
    opt = optimizer.build(problem.groups())
    train(plain, plain_opt, 3)
    train(problem, opt, 3)
    assert problem.weight.stride() == view.stride()
    torch.testing.assert_close(problem.weight, plain.weight, rtol=1e-5, atol=1e-6)


@each_optimizer
@pytest.mark.parametrize(
    "constraint",
    [cl.Free(), cl.Circle(0.9), cl.Sphere(1.5), cl.Sphere(1.0, slack=False), cl.Orthogonal()],
    ids=repr,
)
def test_channels_last_convolution(optimizer: OptimizerCase, constraint: cl.Constraint) -> None:
    def run(memory_format: torch.memory_format) -> nn.Conv2d:
        torch.manual_seed(0)
        conv = nn.Conv2d(3, 4, 3)
        groups = cl.constrain(conv, {"weight": constraint})
        conv = conv.to(memory_format=memory_format)
        opt = optimizer.build(groups)
        x = torch.randn(2, 3, 5, 5).contiguous(memory_format=memory_format)
        for _ in range(3):
            opt.zero_grad()
            conv(x).square().mean().backward()
            opt.step()
            check_feasible(opt)
        return conv

    plain, strided = run(torch.contiguous_format), run(torch.channels_last)
    assert strided.weight.is_contiguous(memory_format=torch.channels_last)
    assert not strided.weight.is_contiguous()
    torch.testing.assert_close(strided.weight, plain.weight, rtol=1e-5, atol=1e-6)


def first_and_only(w: Tensor) -> Tensor:
    return w.square() - 0.25


SCALARS = (cl.Free(), cl.Circle(1.0), cl.Sphere(1.0), cl.Implicit(first_and_only, inequality=True))


@each_optimizer
@pytest.mark.parametrize("constraint", SCALARS, ids=repr)
def test_zero_dimensional_parameter(optimizer: OptimizerCase, constraint: cl.Constraint) -> None:
    weight = nn.Parameter(torch.tensor(0.3))
    opt = optimizer.build([{"params": [weight], "constraint": constraint}])
    for _ in range(3):
        weight.grad = torch.tensor(1.0)
        opt.step()
        check_feasible(opt)
    assert weight.shape == ()
    assert weight.item() != pytest.approx(0.3, abs=1e-4)
    opt.load_state_dict(through_file(opt.state_dict()))


def test_zero_dimensional_weight_on_a_fixed_sphere_stays() -> None:
    weight = nn.Parameter(torch.tensor(-2.0))
    opt = OBA.build([{"params": [weight], "constraint": cl.Sphere(2.0, slack=False)}])
    weight.grad = torch.tensor(1.0)
    opt.step()
    assert weight.item() == -2.0


@pytest.mark.parametrize(
    ("constraint", "shape"),
    [
        (constraint, shape)
        for constraint in (cl.Free(), cl.Circle(1.0), cl.Sphere(1.0), cl.Sphere(1.0, slack=False))
        for shape in ((0,), (0, 3), (3, 0))
    ]
    + [(cl.Orthogonal(), (0, 3)), (cl.Orthogonal(), (3, 0))],
    ids=str,
)
def test_empty_parameter(constraint: cl.Constraint, shape: tuple[int, ...]) -> None:
    weight, other = nn.Parameter(torch.zeros(shape)), nn.Parameter(torch.ones(2))
    constraint.init_(weight)
    opt = NOISY.build([{"params": [weight], "constraint": constraint}, {"params": [other]}])
    for parameter in (weight, other):
        parameter.grad = torch.zeros_like(parameter)
    opt.step()
    assert weight.shape == shape
    check_feasible(opt)
    opt.load_state_dict(through_file(opt.state_dict()))


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 1, 1, 1), (7, 3)])
@each_optimizer
def test_odd_shapes_under_orthogonality(optimizer: OptimizerCase, shape: tuple[int, ...]) -> None:
    case = ConstraintCase("", cl.Orthogonal(), lambda g: nn.init.orthogonal_(torch.empty(shape), generator=g))
    problem, opt = start(optimizer, case)
    train(problem, opt, 3)


def test_implicit_function_with_tensors_of_its_own_dtype() -> None:
    plane = torch.ones(4, dtype=torch.float64)
    weight = nn.Parameter(torch.full((4,), 0.1, dtype=torch.float64))
    constraint = cl.Implicit(lambda w: (plane @ w - 1).reshape(1), inequality=True)
    opt = NOISY.build([{"params": [weight], "constraint": constraint}])
    weight.grad = torch.zeros_like(weight)
    opt.step()
    check_feasible(opt)
    opt.load_state_dict(opt.state_dict())


# ---- torch's own machinery ------------------------------------------------------------------------


@each_constraint
def test_momentum_switched_off_and_on_again_stays_cotangent(constraint: ConstraintCase) -> None:
    problem, opt = start(by_id("sgd-momentum"), constraint)
    for momentum in (0.9, 0.0, 0.9):
        for group in opt.param_groups:
            group["momentum"] = momentum
        train(problem, opt, 2)


def test_temperature_schedule_draws_a_seed_when_noise_begins() -> None:
    problem, opt = start(QUIET, by_id("sphere"), seed=None)
    train(problem, opt, 1)
    assert opt.param_groups[0]["seed"] is None
    for group in opt.param_groups:
        group["temperature"] = 0.1
    train(problem, opt, 1)
    assert isinstance(opt.param_groups[0]["seed"], int)


@each_constraint
def test_clip_grad_norm(constraint: ConstraintCase) -> None:
    problem, opt = start(OBA, constraint)
    problem.backward()
    for parameter in problem.parameters():
        parameter.grad.mul_(100)
    torch.nn.utils.clip_grad_norm_(problem.parameters(), 0.1)
    before = problem.weight.detach().clone()
    opt.step()
    check_feasible(opt)
    assert 0 < (problem.weight - before).norm() < 0.1


@whole_table
def test_grad_scaler_skips_infinite_gradients(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, opt = start(optimizer, constraint)
    plain, plain_opt = start(optimizer, constraint)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for overflow in (False, True, False):
        opt.zero_grad()
        scaler.scale(problem()).backward()
        if overflow:
            problem.bias.grad[0] = math.inf
        before = snapshot(opt)
        scaler.step(opt)
        scaler.update()
        if overflow:
            assert_identical(snapshot(opt), before)
        else:
            train(plain, plain_opt, 1)
    torch.testing.assert_close(problem.state_dict(), plain.state_dict(), rtol=1e-5, atol=1e-6)


@each_constraint
def test_huge_finite_gradients_leave_no_trace_of_nan(constraint: ConstraintCase) -> None:
    fallible, free = constraint.manifold.fallible, isinstance(constraint.constraint, cl.Free)
    schemes = (by_id("colod-noisy"), NOISY, by_id("sgd-momentum"), OBA)
    for optimizer in schemes[-1:] if fallible else schemes:
        problem, opt = start(optimizer, constraint)
        for size in (1e3, 1e10, 1e30 if free else 1e38, 1e-30, 1.0)[2 * fallible :]:
            problem.backward()
            problem.weight.grad.mul_(size / problem.weight.grad.abs().max())
            opt.step()
            check_feasible(opt)
