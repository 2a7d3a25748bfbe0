"""What noise a parameter gets: that of its name wherever it stands, that of its number without a name."""

import copy
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin import noise

Dict = dict[str, Any]
Make = Callable[[Any], torch.optim.Optimizer]

MAKERS: dict[str, Make] = {
    "CoLod": lambda params: cl.CoLod(params, lr=0.05, temperature=0.01, seed=3),
    "CoLud": lambda params: cl.CoLud(params, lr=0.2, friction=1.0, temperature=0.01, seed=3),
    "ConstrainedSGD": lambda params: cl.ConstrainedSGD(params, 0.05, 0.9, temperature=0.01, seed=3),
}
RULES: dict[str, cl.Constraint] = {
    "0.weight": cl.Circle(8.0),
    "2.weight": cl.Sphere(16.0),
    "4.weight": cl.Orthogonal(),
}


def model() -> nn.Sequential:
    made = nn.Sequential(
        nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 3)
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(generator=generator)
    return made


def groups(of: nn.Module) -> list[Dict]:
    return cl.constrain(of, RULES)


def apart(of: list[Dict]) -> list[Dict]:
    """The same groups, each parameter in one of its own."""
    return [{**group, "params": [pair]} for group in of for pair in group["params"]]


def run(parameters: Iterable[Tensor], *optimizers: torch.optim.Optimizer, steps: int = 3) -> list[Tensor]:
    """The weights after some steps without gradients: noise alone moves them."""
    parameters = list(parameters)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.step()
    return [parameter.detach().clone() for parameter in parameters]


def assert_equal(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert all(map(torch.equal, ours, theirs))


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param]


def test_words_differ_by_name_and_by_occurrence_and_stay_as_they_are() -> None:
    assert noise.word("0.weight", 0) == -6958989728024991138
    assert len({noise.word(name, k) for name in ("weight", "0:weight", "bias") for k in range(2)}) == 6
    assert all(-(2**63) <= noise.word(f"{i}", 0) < 2**63 for i in range(1000))


def test_one_optimizer_for_each_parameter_is_one_for_all(make: Make) -> None:
    one, other = model(), model()
    together = run(one.parameters(), make(groups(one)))
    each = run(other.parameters(), *(make([group]) for group in apart(groups(other))))
    assert_equal(each, together)


def test_the_order_of_groups_does_not_matter(make: Make) -> None:
    one, other = model(), model()
    forwards = run(one.parameters(), make(groups(one)))
    backwards = run(other.parameters(), make(apart(groups(other))[::-1]))
    assert_equal(backwards, forwards)


def test_two_optimizers_of_one_seed_draw_different_noise() -> None:
    first, second = nn.Linear(4, 5), nn.Linear(4, 5)
    second.load_state_dict(first.state_dict())
    both = nn.ModuleList([first, second])
    optimizers = [
        MAKERS["CoLod"]([(f"{i}.{name}", p) for name, p in half.named_parameters()])
        for i, half in enumerate(both)
    ]
    weight, bias, other_weight, other_bias = run(both.parameters(), *optimizers)
    assert not torch.isclose(weight, other_weight).any()
    assert not torch.isclose(bias, other_bias).any()


def test_parameters_of_one_name_draw_different_noise() -> None:
    one, other = nn.Parameter(torch.zeros(20)), nn.Parameter(torch.zeros(20))
    moved = run([one, other], MAKERS["CoLod"]([("weight", one), ("weight", other)]))
    assert not torch.isclose(*moved).any()
    first = nn.Parameter(torch.zeros(20))
    assert_equal(run([first], MAKERS["CoLod"]([("weight", first)])), moved[:1])


@pytest.mark.parametrize(
    "wrapped", ["module.{}", "_orig_mod.{}", "module._orig_mod.{}", "_fsdp_wrapped_module.{}"]
)
def test_wrappers_do_not_matter(make: Make, wrapped: str) -> None:
    one, other = model(), model()
    plain = run(one.parameters(), make(one.named_parameters()))
    names = [(wrapped.format(name), parameter) for name, parameter in other.named_parameters()]
    assert_equal(run(other.parameters(), make(names)), plain)


def test_without_names_the_number_decides(make: Make) -> None:
    one, other, third = model(), model(), model()
    by_number = run(one.parameters(), make(list(one.parameters())))
    asked_for = make([{"params": list(other.named_parameters()), "noise_by": "index"}])
    assert_equal(run(other.parameters(), asked_for), by_number)
    by_name = run(third.parameters(), make(third.named_parameters()))
    assert not any(map(torch.equal, by_name, by_number))


def test_a_changed_option_is_seen_by_the_next_step() -> None:
    one, other = nn.Parameter(torch.zeros(20)), nn.Parameter(torch.zeros(20))
    switched = MAKERS["CoLod"]([("weight", one)])
    run([one], switched)
    switched.param_groups[0]["noise_by"] = "index"
    numbered = MAKERS["CoLod"]([other])
    run([other], numbered)
    before = one.detach().clone(), other.detach().clone()
    after = run([one], switched, steps=1) + run([other], numbered, steps=1)
    torch.testing.assert_close(after[0] - before[0], after[1] - before[1])


# ---- saved and loaded --------------------------------------------------------------------------------


def without_the_option(state: Dict) -> Dict:
    """A state dict as it was before groups had the option."""
    for group in state["param_groups"]:
        del group["noise_by"]
    return state


def as_before(of: list[Dict]) -> list[Dict]:
    """Groups with the noise they had before."""
    return [{**group, "noise_by": "index"} for group in of]


def test_the_state_dict_says_what_noise_follows(make: Make) -> None:
    one, other = model(), model()
    named, unnamed = make(groups(one)), make(list(other.parameters()))
    assert [group["noise_by"] for group in named.state_dict()["param_groups"]] == ["name"] * 4
    assert [group["noise_by"] for group in unnamed.state_dict()["param_groups"]] == ["index"]


@pytest.mark.parametrize("through", [copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
def test_an_old_state_goes_on_with_the_old_noise(make: Make, through: Callable[[Any], Any]) -> None:
    old, new = model(), model()
    optimizer = make(as_before(groups(old)))
    run(old.parameters(), optimizer)
    new.load_state_dict(old.state_dict())
    resumed = make(groups(new))
    resumed.load_state_dict(through(without_the_option(optimizer.state_dict())))
    assert {group["noise_by"] for group in resumed.param_groups} == {"index"}
    assert_equal(run(new.parameters(), resumed), run(old.parameters(), optimizer))


def test_a_copy_of_an_old_optimizer_goes_on_with_the_old_noise(make: Make) -> None:
    old = model()
    optimizer = make(as_before(groups(old)))
    run(old.parameters(), optimizer)
    for group in optimizer.param_groups:
        del group["noise_by"]
    new, copied = copy.deepcopy((old, optimizer))
    for group in optimizer.param_groups:
        group["noise_by"] = "index"
    assert_equal(run(new.parameters(), copied), run(old.parameters(), optimizer))


def test_a_state_by_name_goes_on_with_the_names_it_brings(make: Make) -> None:
    one, other = model(), model()
    optimizer = make(groups(one))
    run(one.parameters(), optimizer)
    other.load_state_dict(one.state_dict())
    unnamed = [{**group, "params": [p for _, p in group["params"]]} for group in groups(other)]
    resumed = make(unnamed)
    resumed.load_state_dict(optimizer.state_dict())  # torch takes the names too
    assert_equal(run(other.parameters(), resumed), run(one.parameters(), optimizer))


def test_a_state_by_name_needs_names(make: Make) -> None:
    one, other = model(), model()
    state = make(one.named_parameters()).state_dict()
    del state["param_groups"][0]["param_names"]
    resumed = make(list(other.parameters()))
    message = (
        r"noise_by='name' in param_groups\[0\] of the state dict: .* have none\. Build the optimizer with "
        r"named ones: model\.named_parameters\(\), or the groups of colangevin\.constrain"
    )
    with pytest.raises(cl.ConstraintError, match=message):
        resumed.load_state_dict(state)
    assert resumed.param_groups[0]["noise_by"] == "index"
