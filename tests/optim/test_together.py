"""Steps of several parameters that one constraint holds together, by a rule whose key is a tuple of names."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.constraints.implicit_runs import assert_unchanged, everything
from tests.optim.autoencoders import (
    BALANCED,
    BOTH,
    KINDS,
    PAIR,
    AutoEncoder,
    balanced,
    data,
    flat,
    held,
    train,
    within_two,
)
from tests.optim_db import (
    OptimizerCase,
    assert_identical,
    by_id,
    check_feasible,
    each_dtype,
    each_optimizer,
    snapshot,
)

each_kind = pytest.mark.parametrize("kind", KINDS)
NOISY = by_id("colud-BAOAB-noisy")
QUIET = by_id("colud-OBA")


# ---- the step --------------------


@each_kind
@each_optimizer
def test_every_optimizer_keeps_them_on_their_constraint(optimizer: OptimizerCase, kind: str) -> None:
    model, groups = held(KINDS[kind])
    before = flat(model)
    built = optimizer.build(groups)
    for _ in range(5):
        train(model, built, 1)
        check_feasible(built)
    assert not torch.equal(flat(model), before)


@each_dtype
def test_every_dtype(dtype: torch.dtype) -> None:
    model, groups = held(BALANCED, dtype)
    optimizer = NOISY.build(groups)
    train(model, optimizer, 3)
    check_feasible(optimizer)
    assert optimizer.state[model.encoder.weight]["momentum"].shape == (24,)
    assert model.decoder.weight not in optimizer.state


class Flat(nn.Module):
    """The same model, its two matrices written as one vector."""

    def __init__(self, model: AutoEncoder) -> None:
        super().__init__()
        self.both = nn.Parameter(flat(model))
        self.biases = nn.ParameterList(copy.deepcopy([model.encoder.bias, model.decoder.bias]))

    def forward(self, x: Tensor) -> Tensor:
        encoder, decoder = self.both[:12].view(3, 4), self.both[12:].view(4, 3)
        return (x @ encoder.T + self.biases[0]) @ decoder.T + self.biases[1]


def on_flat(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda w: function(w[:12].view(3, 4), w[12:].view(4, 3))


FLAT = {
    "equation": cl.Implicit(on_flat(balanced)),
    "bound": cl.Implicit(on_flat(within_two), inequality=True),
    "both": cl.Implicit(on_flat(balanced), nonpositive=on_flat(within_two)),
}


@each_kind
@each_optimizer
def test_they_move_as_one_flat_parameter_does(optimizer: OptimizerCase, kind: str) -> None:
    """Noise included: it is that of the first name. In float64 to rounding: sums may be grouped otherwise."""
    model, groups = held(KINDS[kind])
    one = Flat(model)
    first = optimizer.build(groups)
    free = list(zip(("encoder.bias", "decoder.bias"), one.biases, strict=True))
    second = optimizer.build([{"params": [(PAIR[0], one.both)], "constraint": FLAT[kind]}, {"params": free}])
    for _ in range(4):
        train(model, first, 1)
        train(one, second, 1)
        torch.testing.assert_close(flat(model), one.both.detach(), rtol=0, atol=1e-12)
        torch.testing.assert_close(model.decoder.bias, one.biases[1], rtol=0, atol=1e-12)


def test_muon_takes_adams_steps_of_them() -> None:
    """They are one vector, of which Muon makes no matrix."""
    ends = []
    for build in (
        lambda groups: cl.ConstrainedMuon(groups, 0.01),
        lambda groups: cl.ConstrainedAdam(groups, 0.01),
    ):
        model, groups = held()
        train(model, build(groups), 3)
        ends.append(flat(model))
    assert torch.equal(*ends)


def test_a_gradient_of_none_is_zero_beside_others() -> None:
    ends = []
    for zero in (None, torch.zeros(4, 3, dtype=torch.float64)):
        model, groups = held()
        optimizer = NOISY.build(groups)
        for _ in range(2):
            model.encoder.weight.grad = torch.ones_like(model.encoder.weight)
            model.decoder.weight.grad = zero
            optimizer.step()
        ends.append(flat(model))
    assert torch.equal(*ends)


def test_without_any_gradient_they_stay() -> None:
    model, groups = held()
    optimizer = NOISY.build(groups)
    before = flat(model)
    optimizer.step()
    model.encoder.bias.grad = torch.ones(3, dtype=torch.float64)
    optimizer.step()
    assert torch.equal(flat(model), before)
    assert model.encoder.weight not in optimizer.state


def test_gradients_are_left_as_they_are() -> None:
    model, groups = held()
    model(data()).sum().backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    NOISY.build(groups).step()
    assert all(torch.equal(p.grad, grad) for p, grad in zip(model.parameters(), before, strict=True))


def test_parameters_of_no_contiguous_memory_and_of_no_dimension() -> None:
    """A scale of no dimension times a transposed matrix has norm 2."""
    scale = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    matrix = nn.Parameter(torch.full((4, 3), 12**-0.5, dtype=torch.float64).t())
    holder = nn.ParameterDict({"matrix": matrix, "scale": scale})
    groups = cl.constrain(
        holder, {("scale", "matrix"): cl.Implicit(lambda s, m: s.square() * m.square().sum() - 4)}
    )
    optimizer = NOISY.build(groups)
    for _ in range(3):
        for parameter in holder.values():
            parameter.grad = 0.1 * torch.randn_like(parameter)
        optimizer.step()
        check_feasible(optimizer)
    assert matrix.stride() == (1, 3)


def test_two_pairs_of_one_constraint_stay_two() -> None:
    model = nn.ModuleDict({"a": AutoEncoder(), "b": AutoEncoder()})
    rules = {tuple(f"{place}.{name}" for name in PAIR): BALANCED for place in "ab"}
    groups = cl.constrain(model, rules, init="nearest")
    assert [len(group["params"]) for group in groups] == [2, 4, 2]
    optimizer = NOISY.build(groups)
    for each in model.values():
        each(data()).square().mean().backward()
    optimizer.step()
    check_feasible(optimizer)
    ends = [flat(each) for each in model.values()]
    assert not torch.equal(*ends), "both had one noise"


# ---- what breaks off --------------------


def test_a_nan_in_one_of_their_gradients_names_both_and_changes_nothing() -> None:
    model, groups = held()
    optimizer = NOISY.build(groups)
    train(model, optimizer, 2)
    model.decoder.weight.grad[0, 0] = torch.nan
    before = everything(optimizer)
    with pytest.raises(
        cl.NonFiniteError, match=rf"parameter '{BOTH}' \(24,\): its gradient holds NaN or Inf"
    ):
        optimizer.step()
    before[1][1].nan_to_num_()
    model.decoder.weight.grad.nan_to_num_()
    assert_unchanged(optimizer, before)


def test_a_step_that_finds_no_point_names_both_and_changes_nothing() -> None:
    model, _ = held()
    twice = cl.Implicit(lambda a, b: torch.cat((balanced(a, b), balanced(a, b)[:1])))
    groups = cl.constrain(model, {PAIR: twice}, init="keep")
    optimizer = cl.CoLod(groups, 0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = everything(optimizer)
    with pytest.raises(cl.ConvergenceError, match=rf"parameter '{BOTH}' \(24,\).*rank 3 for 4 components"):
        optimizer.step()
    assert_unchanged(optimizer, before)


def test_a_step_that_a_closure_breaks_off_is_undone() -> None:
    model, groups = held()
    optimizer = cl.CoLud(groups, 0.1, friction=1.0, temperature=0.1, seed=1, splitting="OBABO")
    train(model, optimizer, 2)
    calls = 0

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        optimizer.zero_grad()
        loss = model(data()).square().mean()
        loss.backward()
        return loss

    before = snapshot(optimizer)
    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert_identical(before, snapshot(optimizer))


def test_an_edit_of_one_of_them_is_found() -> None:
    model, groups = held()
    optimizer = QUIET.build(groups)
    train(model, optimizer, 2)
    model.decoder.weight.data.mul_(1.5)
    with pytest.raises(
        cl.InfeasibleError, match=rf"parameter '{BOTH}' \(24,\): Implicit.*balanced.*violated"
    ):
        train(model, optimizer, 1)
    model.encoder.weight.data.mul_(1.5)  # both together are balanced again
    train(model, optimizer, 1)
    check_feasible(optimizer)
