import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.training.stack import Stack
from tests.experiments.tiny import METHODS, problem


def stack(methods=METHODS, runs=3, seed=0, classes=2, **changes):
    return Stack(
        problem(**changes), methods, runs, inputs=2, classes=classes, seed=seed, device=torch.device("cpu")
    )


def batch(runs=3, points=6, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(runs, points, 2, generator=source), (
        torch.rand(runs, points, generator=source) > 0.5
    ).float()


def copy(stack, method, run):
    return [method.name for method in stack.methods].index(method) * stack.runs + run


def weights(stack, method, run):
    return {name: value.detach()[copy(stack, method, run)] for name, value in stack.weights.items()}


def test_methods_of_a_run_start_alike_and_runs_do_not():
    made = stack()
    for name, sgd in weights(made, "SGD", 1).items():
        assert torch.equal(sgd, weights(made, "C-SGLD", 1)[name])
        assert not torch.equal(sgd, weights(made, "SGD", 2)[name])
    start, constrained = weights(made, "start", 1), weights(made, "o-CoLod τ", 1)
    for name in start:
        assert torch.equal(start[name], constrained[name])
    square = start["hidden.1.weight"]
    torch.testing.assert_close(square @ square.T, torch.eye(8))


def test_a_run_does_not_depend_on_how_many_there_are():
    few, many = stack(runs=2), stack(runs=4)
    for name, value in weights(few, "o-CoLod τ", 1).items():
        assert torch.equal(value, weights(many, "o-CoLod τ", 1)[name])


@pytest.mark.parametrize(
    ("method", "options"),
    [("SGD", {}), ("SGD, WD", {"weight_decay": 1e-2}), ("SGD-m", {"momentum": 0.8}), ("penalty", {})],
)
def test_a_copy_follows_the_same_training_by_itself(method, options):
    made = stack()
    alone = made.model[copy(made, method, 1)]
    sgd = torch.optim.SGD(alone.parameters(), lr=0.1, **options)
    for step in range(5):
        x, y = batch(seed=step)
        made.differentiate(x, y)
        made.step()
        sgd.zero_grad()
        loss = binary_cross_entropy_with_logits(alone(x[1]).squeeze(-1), y[1])
        if method == "penalty":
            W = alone.hidden[1].weight
            loss = loss + 0.05 * (W.T @ W - torch.eye(8)).square().sum()
        loss.backward()
        sgd.step()
    for name, value in alone.named_parameters():
        torch.testing.assert_close(weights(made, method, 1)[name], value.detach(), atol=1e-6, rtol=1e-5)


def test_methods_do_not_touch_each_other():
    alone, together = stack(METHODS[:1]), stack()
    for step in range(3):
        for made in (alone, together):
            made.differentiate(*batch(seed=step))
            made.step()
    for name, value in weights(alone, "SGD", 2).items():
        torch.testing.assert_close(value, weights(together, "SGD", 2)[name], atol=1e-7, rtol=1e-6)


def test_summed_loss_is_batch_times_the_mean():
    x, y = batch()
    mean, total = stack(METHODS[:1]), stack(METHODS[:1], reduction="sum")
    for made in (mean, total):
        made.differentiate(x, y)
    for name in mean.grads:
        torch.testing.assert_close(6 * mean.grads[name], total.grads[name])


def test_constraints_hold_and_only_the_constrained_report_a_violation():
    made = stack()
    for step in range(5):
        made.differentiate(*batch(seed=step))
        made.step()
    violation = dict(zip([m.name for m in METHODS], made.violation(), strict=True))
    assert violation["SGD"] == violation["penalty"] == 0
    assert 0 < violation["o-CoLod τ"] < 1e-5
    assert 0 < violation["C-SGLD"] < 1e-5
    first, last = made.largest_weights()[:, [m.name for m in METHODS].index("C-SGLD")]
    assert bool((first <= 1).all())
    assert bool((last <= 5).all())


def test_a_copy_that_diverges_is_counted_stays_and_disturbs_nobody():
    wild = Method("wild", 1e6, penalty=10.0)
    together, alone = stack((METHODS[0], wild)), stack(METHODS[:1])
    for step in range(8):
        for made in (together, alone):
            made.differentiate(*batch(seed=step))
            made.step()
    assert together.lost.tolist() == [[False] * 3, [True] * 3]
    for name, value in weights(alone, "SGD", 0).items():
        torch.testing.assert_close(value, weights(together, "SGD", 0)[name], atol=1e-7, rtol=1e-6)
    before = {name: value.clone() for name, value in weights(together, "wild", 0).items()}
    together.differentiate(*batch(seed=9))
    together.step()
    for name, value in weights(together, "wild", 0).items():
        assert bool(value.isfinite().all())
        assert torch.equal(value, before[name])


def test_evaluation_in_pieces_is_that_of_each_model(monkeypatch):
    from colangevin.experiments.training import stack as module

    monkeypatch.setattr(module, "_ACTIVATIONS", 64)  # two points at a time
    made = stack(METHODS[:2], runs=2)
    x, y = batch(runs=2, points=11)
    loss, accuracy = made.evaluate(x, y)
    for method in range(2):
        for run in range(2):
            logits = made.model[method * 2 + run](x[run]).squeeze(-1).detach()
            expected = binary_cross_entropy_with_logits(logits, y[run])
            assert float(loss[method, run]) == pytest.approx(float(expected), rel=1e-6)
            right = ((logits > 0) == (y[run] > 0.5)).double().mean()
            assert float(accuracy[method, run]) == pytest.approx(float(right))


def test_several_classes_and_one_data_set_for_all():
    made = stack(METHODS[:2], runs=3, classes=4)
    x = torch.randn(1, 9, 2)
    y = torch.arange(9).remainder(4).unsqueeze(0)
    loss, accuracy = made.evaluate(x, y)
    logits = made.model[4](x[0]).detach()
    assert float(loss[1, 1]) == pytest.approx(float(cross_entropy(logits, y[0])), rel=1e-6)
    assert float(accuracy[1, 1]) == pytest.approx(float((logits.argmax(-1) == y[0]).double().mean()))
    made.differentiate(x.expand(3, -1, -1), y.expand(3, -1))
    assert float(made.grads["output.weight"].abs().max()) > 0
