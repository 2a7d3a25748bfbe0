"""Two chains on the same noise: the coarse chain's is the sum of the fine one's, whatever the scheme."""

import pytest
import torch

import colangevin as cl
from colangevin.diagnostics.tied import TiedPlan
from colangevin.step.plan import Plan
from tests.core_only import Symmetric as CoreOnly

LR = 0.1


def chain(kind="BAOAB", constraint=None, shape=(3, 2), replicas=0, *, loss=None, friction=0.7, **options):
    """What builds a chain for a step size, with a list of every weight that it made."""
    made = []

    def build(lr):
        torch.manual_seed(0)
        copies = (replicas,) if replicas else ()
        weight = torch.randn(*copies, *shape, dtype=torch.float64)
        if constraint is not None:
            constraint.init_(weight, replicas=bool(replicas), init="nearest")
        weight = torch.nn.Parameter(weight)
        group = {"params": [("w", weight)], "replicas": replicas}
        if constraint is not None:
            group["constraint"] = constraint
        settings = {"temperature": 0.5, "seed": 3} | options
        if kind == "overdamped":
            optimizer = cl.CoLod([group], lr, **settings)
        else:
            optimizer = cl.CoLud([group], lr, friction=friction, splitting=kind, **settings)

        def closure():
            optimizer.zero_grad()
            value = (loss or (lambda w: 0.0 * w.sum()))(weight)
            value.backward()
            return value

        made.append((optimizer, weight))
        return optimizer, closure, lambda: weight.detach().flatten(1 if replicas else 0).sum(-1)

    return build, made


def run(build, lr=LR, steps=8, **options):
    return cl.diagnostics.coupled(build, lr, steps=steps, **options)


@pytest.mark.parametrize("kind", ["OBA", "BOA", "BAOAB", "OBAO", "OABAO", "OBABO"])
@pytest.mark.parametrize("replicas", [0, 3])
def test_without_a_gradient_both_momenta_are_the_same(kind, replicas):
    """O alone moves momenta, so one O over 2h has to be the two over h exactly."""
    build, made = chain(kind, replicas=replicas)
    run(build)
    fine, coarse = (optimizer.state[weight]["momentum"] for optimizer, weight in made)
    torch.testing.assert_close(coarse, fine, rtol=1e-12, atol=1e-12)
    assert fine.abs().max() > 0.1


def test_numbers_of_each_copy_weigh_its_own_noise():
    friction, tau = torch.tensor([0.2, 5.0, 1.0]), torch.tensor([0.1, 0.5, 2.0])
    build, made = chain(replicas=3, friction=friction, temperature=tau)
    run(build)
    fine, coarse = (optimizer.state[weight]["momentum"] for optimizer, weight in made)
    torch.testing.assert_close(coarse, fine, rtol=1e-6, atol=1e-7)


def test_without_a_gradient_both_overdamped_chains_are_the_same():
    build, made = chain("overdamped")
    found = run(build)
    (_, fine), (_, coarse) = made
    torch.testing.assert_close(coarse, fine, rtol=1e-12, atol=1e-12)
    assert found.difference == pytest.approx(0, abs=1e-12)
    assert found.correlation == pytest.approx(1)


@pytest.mark.parametrize("kind", ["overdamped", "BAOAB"])
def test_untied_chains_are_told_apart(kind, monkeypatch):
    monkeypatch.setattr("colangevin.diagnostics.coupling.TiedPlan", Plan)
    build, made = chain(kind)
    run(build)
    pair = [
        weight if kind == "overdamped" else optimizer.state[weight]["momentum"] for optimizer, weight in made
    ]
    assert (pair[0] - pair[1]).abs().max() > 0.1


CONSTRAINTS = {
    "circle": cl.Circle(2.0),
    "sphere": cl.Sphere(1.5),
    "matrix": cl.Sphere(1.5, over="matrix", slack=False),
    "orthogonal": cl.Orthogonal(),
    "implicit": cl.Implicit(lambda w: w.square().sum().reshape(1) - 2.0),
    "affine": cl.Affine.sum(1.0),
    "nonnegative": cl.NonNegative(),
    "simplex": cl.Simplex(),
    "core only": CoreOnly(),
}


#: relative distances that tied chains keep below and untied ones do not: positions of CoLud are smoother
NEAR = {"overdamped": 0.05, "OBA": 0.01, "BAOAB": 0.01}


def distance(name, kind, lr):
    """How far apart the chains are after a fixed time, relative to the weight."""
    shape = (2, 2) if name == "core only" else (3, 2)
    build, made = chain(kind, CONSTRAINTS[name], shape, loss=lambda w: w.square().sum() / 2)
    run(build, lr, steps=round(0.4 / (2 * lr)))
    for optimizer, _ in made:
        assert max(cl.diagnostics.violation(optimizer).values()) < 1e-6
    fine, coarse = (weight.detach() for _, weight in made)
    return float((fine - coarse).norm() / fine.norm())


@pytest.mark.parametrize("kind", ["overdamped", "OBA", "BAOAB"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_on_every_constraint_chains_come_together_as_the_step_vanishes(name, kind):
    near, far = distance(name, kind, 0.005), distance(name, kind, 0.02)
    assert near < NEAR[kind]
    assert near < 0.8 * far


@pytest.mark.parametrize("kind", ["overdamped", "OBA", "BAOAB"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_untied_they_do_not(name, kind, monkeypatch):
    monkeypatch.setattr("colangevin.diagnostics.coupling.TiedPlan", Plan)
    assert distance(name, kind, 0.005) > NEAR[kind]


def test_the_fine_chain_is_the_run_that_it_would_be_alone():
    build, made = chain(constraint=cl.Circle(3.0), loss=lambda w: w.square().sum() / 2)
    run(build, steps=6)
    alone, _ = chain(constraint=cl.Circle(3.0), loss=lambda w: w.square().sum() / 2)
    optimizer, closure, observe = alone(LR)
    for _ in range(12):
        optimizer.step(closure)
    assert torch.equal(optimizer.param_groups[0]["params"][0], made[0][1])
    assert float(observe()) == float(made[0][1].detach().sum())


def test_chains_without_a_seed_get_the_same_one():
    build, made = chain(seed=None)
    run(build)
    one, two = (optimizer.param_groups[0]["seed"] for optimizer, _ in made)
    assert one == two is not None


def test_only_the_coarse_chain_is_planned_anew():
    build, made = chain()
    run(build)
    assert [type(optimizer._plan) for optimizer, _ in made] == [Plan, TiedPlan]
    assert cl.CoLud._planned is Plan


def test_the_burn_in_does_not_count():
    """A chain that descends at temperature 0 has a mean that depends on where counting begins."""
    loss = lambda w: w.square().sum() / 2  # noqa: E731
    means = [run(chain("overdamped", loss=loss, temperature=0.0)[0], burn_in=n).mean for n in (0, 60)]
    assert abs(means[1]) < 1e-3 < abs(means[0])


def test_the_bound_and_the_bias_follow_from_the_difference():
    found = cl.diagnostics.Coupled(lr=0.1, mean=1.0, difference=-0.03, error=0.001, correlation=0.9)
    assert found.bound == pytest.approx(0.033)
    assert (found.bias(1), found.bias(2)) == (pytest.approx(-0.03), pytest.approx(-0.01))
    with pytest.raises(ValueError, match=r"order=0: must be at least 1, as of a step whose bias vanishes"):
        found.bias(0)


def other(change):
    """A build that gives something else at twice the step."""
    build, made = chain()

    def changed(lr):
        optimizer, closure, observe = build(lr)
        if len(made) == 2:
            change(optimizer)
        return optimizer, closure, observe

    return changed


def heat(optimizer):
    optimizer.param_groups[0]["temperature"] = 0.7


def slow(optimizer):
    optimizer.param_groups[0]["lr"] = LR


def decay(optimizer):
    optimizer.param_groups[0]["weight_decay"] = 0.1


def edit(optimizer):
    optimizer.param_groups[0]["params"][0].data[0, 0] += 1


@pytest.mark.parametrize("change", [heat, slow, decay])
def test_chains_that_differ_in_more_than_their_step_are_refused(change):
    with pytest.raises(
        ValueError, match=r"param_groups\[0\] whose lr is not lr, .* must give every group lr=lr"
    ):
        run(other(change))


def test_chains_from_other_weights_are_refused():
    with pytest.raises(ValueError, match=r"'w' \(3, 2\): build\(lr\) gave other weights .* set torch's seed"):
        run(other(edit))


def test_chains_of_other_parameters_are_refused():
    def change(optimizer):
        optimizer.add_param_group({"params": [("v", torch.nn.Parameter(torch.zeros(2)))]})

    with pytest.raises(ValueError, match=r"build\(lr\) gave parameters \[\['w'\]\] and \[\['w'\], \['v'\]\]"):
        run(other(change))


def test_an_optimizer_that_has_taken_steps_is_refused():
    build, _ = chain()

    def stepped(lr):
        optimizer, closure, observe = build(lr)
        optimizer.step(closure)
        return optimizer, closure, observe

    with pytest.raises(ValueError, match=r"an optimizer that has taken steps: must give a new one"):
        run(stepped)


def test_optimizers_whose_lr_is_no_time_are_refused():
    weight = torch.nn.Parameter(torch.zeros(2))

    def build(lr):
        return cl.ConstrainedSGD([weight], lr, momentum=0.9), lambda: None, lambda: 0.0

    with pytest.raises(
        ValueError, match=r"gave ConstrainedSGD: must give CoLod or CoLud, whose lr is the time"
    ):
        run(build)


@pytest.mark.parametrize(("steps", "burn_in"), [(3, 0), (10, -1)])
def test_numbers_out_of_range_are_refused(steps, burn_in):
    with pytest.raises(ValueError, match=rf"steps={steps}, burn_in={burn_in}: must be at least 4 and 0"):
        run(chain()[0], steps=steps, burn_in=burn_in)
