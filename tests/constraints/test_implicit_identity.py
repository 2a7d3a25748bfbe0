"""Which g a checkpoint was saved under, and how far a weight is from g = 0 in the units of g."""

import functools
import io

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints.description import same_description
from colangevin.constraints.fingerprint import fingerprint

RADIUS = 1.0


def same(one, other) -> bool:
    return same_description(cl.Implicit(one).describe(), cl.Implicit(other).describe())


def sphere(radius):
    return lambda w: w.square().sum().reshape(1) - radius**2


def scaled(w: Tensor, scale: float, *, shift: float = 0.0) -> Tensor:
    return scale * w.sum().reshape(1) - shift


def with_global(w: Tensor) -> Tensor:
    return w.square().sum().reshape(1) - RADIUS


def helper(w: Tensor) -> Tensor:
    return w.sum().reshape(1)


def with_helper(w: Tensor) -> Tensor:
    return helper(w) - 1


class Level:
    def __init__(self, level: float) -> None:
        self.level = level

    def __call__(self, w: Tensor) -> Tensor:
        return w.sum().reshape(1) - self.level


def test_lambdas_of_one_name_are_told_apart():
    one, other = (lambda w: w.sum().reshape(1)), (lambda w: w.sum().reshape(1) - 1)
    assert same(one, one)
    assert not same(one, other)
    assert not same(other, lambda w: w.sum().reshape(1) - 2)
    assert same(other, lambda w: w.sum().reshape(1) - 1)


def test_closures_defaults_and_partials_are_compared():
    assert same(sphere(1.0), sphere(1.0))
    assert not same(sphere(1.0), sphere(1.1))
    assert not same(sphere(1), sphere(1.0))
    assert same(sphere(torch.ones(2)), sphere(torch.ones(2)))
    assert not same(sphere(torch.ones(2)), sphere(torch.tensor([1.0, 1.1])))
    partial = functools.partial(scaled, scale=2.0)
    assert same(partial, functools.partial(scaled, scale=2.0))
    assert not same(partial, functools.partial(scaled, scale=3.0))
    assert not same(partial, functools.partial(scaled, scale=2.0, shift=1.0))


def test_values_and_functions_of_the_module_are_compared(monkeypatch):
    before, before_helper = fingerprint(with_global), fingerprint(with_helper)
    assert fingerprint(with_global) == before
    with monkeypatch.context() as patch:
        patch.setitem(with_global.__globals__, "RADIUS", 2.0)
        assert fingerprint(with_global) != before
    with monkeypatch.context() as patch:
        patch.setitem(with_helper.__globals__, "helper", lambda w: 2 * w.sum().reshape(1))
        assert fingerprint(with_helper) != before_helper


def test_a_function_that_calls_itself_ends():
    def g(w: Tensor) -> Tensor:
        return g(w[1:]) if len(w) > 1 else w

    assert fingerprint(g) == fingerprint(g)


def test_objects_count_by_their_class():
    assert same(Level(1.0), Level(2.0))
    assert not same(Level(1.0), nn.Linear(2, 1))
    assert same(torch.trace, torch.trace)


def test_another_python_and_an_old_checkpoint_are_compared_by_name():
    description = cl.Implicit(sphere(1.0)).describe()
    older = {**description, "code": {"cpython-399": "0123"}}
    assert same_description(description, older)
    del older["code"]
    assert same_description(older, description)
    assert not same_description({**older, "inequality": True}, description)


def saved(g) -> dict:
    weight = nn.Parameter(torch.tensor([1.0, 0.0]))
    optimizer = cl.CoLud([{"params": [("w", weight)], "constraint": cl.Implicit(g)}], 0.1, friction=1.0)
    weight.grad = torch.tensor([0.0, 1.0])
    optimizer.step()
    buffer = io.BytesIO()
    torch.save(optimizer.state_dict(), buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def load(state_dict: dict) -> None:
    weight = nn.Parameter(torch.tensor([1.0, 0.0]))
    groups = [{"params": [("w", weight)], "constraint": cl.Implicit(sphere(1.0))}]
    cl.CoLud(groups, 0.1, friction=1.0).load_state_dict(state_dict)


def test_a_state_saved_under_another_g_is_refused():
    load(saved(sphere(1.0)))
    with pytest.raises(cl.ConstraintError, match=r"parameter 'w' .*saved under Implicit.*Use the same"):
        load(saved(sphere(1.0000001)))


class Levels:
    """A g that is an object, with a level that nobody can see in a checkpoint."""

    def __init__(self, level: float) -> None:
        self.level = level

    def __call__(self, w: Tensor) -> Tensor:
        return w.square().sum().reshape(1) - self.level


LEVELS = [1.0, 2.0]


def of_a_list(w: Tensor) -> Tensor:
    return w.square().sum().reshape(1) - LEVELS[0]


@pytest.mark.parametrize(("g", "unseen"), [(Levels(1.0), "Levels"), (of_a_list, "list")])
def test_loading_says_what_of_g_it_could_not_compare(g, unseen):
    weight = nn.Parameter(torch.tensor([1.0, 0.0]))
    optimizer = cl.CoLud([{"params": [("w", weight)], "constraint": cl.Implicit(g)}], 0.1, friction=1.0)
    message = rf"parameter 'w' .*Not compared: .*: what is inside of its {unseen}. Make sure"
    with pytest.warns(UserWarning, match=message):
        optimizer.load_state_dict(saved(g))


@pytest.mark.parametrize(
    ("code", "words"),
    [({"cpython-399": "0123"}, "saved by cpython-399 and is run by"), ({}, "that stored no fingerprint")],
)
def test_loading_says_that_code_of_another_python_was_not_compared(code, words):
    state_dict = saved(sphere(1.0))
    state_dict["param_groups"][0]["constraint"]["code"] = code
    with pytest.warns(UserWarning, match=rf"parameter 'w' .*Not compared: .*its code.*{words}"):
        load(state_dict)


# ---- violation -----------------------------------------------------------------------------------


def determinant(w: Tensor) -> Tensor:
    return torch.linalg.det(w).reshape(1) - 1


def test_violation_is_g_itself():
    # a badly conditioned matrix: relative to |J| |w| its determinant seems right
    weight = torch.diag(torch.tensor([1e6, 1e-6, 1.17], dtype=torch.float64))
    weight[0, 1] = weight[1, 0] = 0.0
    assert cl.Implicit(determinant).violation(weight) == pytest.approx(0.17, rel=1e-9)
    parameter = nn.Parameter(weight.clone())
    groups = [{"params": [("w", parameter)], "constraint": cl.Implicit(determinant)}]
    optimizer = cl.CoLod(groups, 1e-3)  # accepted: |g| is small beside |J| |w|
    assert cl.Implicit(determinant).on((3, 3)).infeasibility(weight[None]) < 1e-6
    assert cl.diagnostics.violation(optimizer)["w"] == pytest.approx(0.17, rel=1e-9)


def test_words_give_g_itself_and_its_relative_size():
    weight = torch.diag(torch.tensor([2.0, 1.0, 0.585], dtype=torch.float64))
    message = r"determinant\(w\)\[0\] = 0\.17, must be 0; that is 0\.0\d+ of how far it moves with the weight"
    with pytest.raises(cl.InfeasibleError, match=message):
        cl.Implicit(determinant).check(weight)


def test_violation_of_an_inequality_is_its_positive_part():
    inside = cl.Implicit(lambda w: w.square() - 4, inequality=True)
    assert inside.violation(torch.tensor([1.0, -1.5])) == 0
    assert inside.violation(torch.tensor([1.0, -3.0])) == 5
    assert inside.violation(torch.tensor([[1.0], [3.0], [2.0]]), replicas=True) == 5
    assert inside.violation(torch.empty(0, 1), replicas=True) == 0
