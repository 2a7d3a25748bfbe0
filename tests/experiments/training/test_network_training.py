import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import ImageProblem, TextProblem
from colangevin.experiments.judging.scoring import score
from colangevin.experiments.training import network_training
from colangevin.experiments.training.network_training import NetworkTraining
from colangevin.experiments.training.randomness import Draw, seeded
from colangevin.experiments.training.singular_values import singular_values

pytestmark = pytest.mark.usefixtures("small_data")

CPU = torch.device("cpu")
IMAGES = ImageProblem(train=24, test=6, batch=10, width=2)
WORDS = TextProblem("ptb", batch=3, length=20, width=8, words=150)
SGD = Method("SGD-m", 0.1, "ConstrainedSGD", momentum=0.9, weight_decay=1e-3)
RADII = (0.5, 0.5, 0.4, 1.0, 1.0)
IMAGE_METHODS = (
    SGD,
    Method("start", 0.1, "ConstrainedSGD", momentum=0.9, square="orthogonal start"),
    Method("penalty", 0.1, "ConstrainedSGD", momentum=0.9, penalty=0.01),
    Method("o-CoLud", 0.1, "ConstrainedSGD", momentum=0.9, square="orthogonal"),
    Method("free last", 0.3, "CoLud", friction=0.5, square="orthogonal but the last", temperature=1e-5),
    Method("o-CoLod", 0.1, square="orthogonal"),
)
TEXT_METHODS = (SGD, Method("c-CoLud", 0.4, "CoLud", friction=0.5, radii=RADII, temperature=1e-5))
CASES = [
    *(pytest.param(IMAGES, method, id=f"images, {method.name}") for method in IMAGE_METHODS),
    *(pytest.param(WORDS, method, id=f"text, {method.name}") for method in TEXT_METHODS),
]


def training(problem=IMAGES, method=SGD, run=0, epochs=3):
    return NetworkTraining(problem, method, run, epochs=epochs, seed=0, device=CPU)


def flat(made):
    return torch.cat([value.flatten().double() for value in made.model.state_dict().values()])


@pytest.mark.parametrize(("problem", "method"), CASES)
@pytest.mark.parametrize("stop", [0, 2])
def test_resumed_equals_uninterrupted_bit_for_bit(problem, method, stop, tmp_path):
    whole, first = training(problem, method), training(problem, method)
    curve = []
    for _ in range(3):
        whole.advance()
        curve.append(whole.measure())
    for _ in range(stop):
        first.advance()
    torch.save(first.state_dict(), tmp_path / "state")
    second = training(problem, method)
    second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    resumed = []
    for _ in range(3 - stop):
        second.advance()
        resumed.append(second.measure())
    assert torch.equal(torch.stack(resumed), torch.stack(curve[stop:]))
    assert torch.equal(flat(whole), flat(second))


def test_methods_of_a_run_start_alike_and_runs_do_not():
    sgd, start, held = (training(method=method) for method in (SGD, IMAGE_METHODS[1], IMAGE_METHODS[3]))
    assert torch.equal(flat(start), flat(held))
    weights = dict(held.model.named_parameters())
    for name, weight in sgd.model.named_parameters():
        alike = torch.equal(weight, weights[name])
        assert alike == (weight.dim() == 1 or name == "stem.weight")
    assert not torch.equal(flat(sgd), flat(training(run=1)))


@pytest.mark.parametrize("problem", [IMAGES, WORDS], ids=["images", "text"])
def test_sgd_is_that_of_torch(problem):
    made, twin = training(problem), training(problem)
    sgd = torch.optim.SGD(twin.model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    made.advance()
    twin.task.begin(1)
    start = torch.zeros((), dtype=torch.long)
    # dropout draws as the training's does
    with seeded(0, Draw.DROPOUT, 0, 1):
        for size in twin.task.sizes:
            x, y = twin.task.batch(start, size)
            sgd.zero_grad()
            cross_entropy(twin.model(x).flatten(0, -2), y.flatten()).backward()
            sgd.step()
            start += size
    for ours, theirs in zip(made.model.parameters(), twin.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_training_loss_and_accuracy_are_those_of_the_steps(monkeypatch):
    made = training(WORDS)
    seen = []

    def spy(logits, y):
        loss = cross_entropy(logits.flatten(0, -2), y.flatten())
        seen.append((float(loss.detach()) * y.numel(), int((logits.argmax(-1) == y).sum()), y.numel()))
        return score(logits, y)

    monkeypatch.setattr(network_training, "score", spy)
    made.advance()
    losses, right, count = (sum(column) for column in zip(*seen, strict=True))
    measured = dict(zip(made.task.curves, made.measure().flatten().tolist(), strict=True))
    assert measured["train_loss"] == pytest.approx(losses / count, rel=1e-6)
    assert measured["train_accuracy"] == pytest.approx(right / count)


@pytest.mark.parametrize("problem", [replace(IMAGES, batch=8, stages=1), WORDS], ids=["images", "text"])
def test_it_learns(problem):
    made = training(problem, Method("SGD-m", 0.05, "ConstrainedSGD", momentum=0.9), epochs=20)
    made.advance()
    first = made.measure()[0]
    for _ in range(19):
        made.advance()
    assert float(made.measure()[0]) < 0.8 * float(first)


@pytest.mark.parametrize("number", [3, 4, 5])
def test_constraints_hold_throughout(number):
    made = training(method=IMAGE_METHODS[number])
    for _ in range(3):
        made.advance()
        assert 0 < made.violation() < 1e-5
    names, spectra = singular_values(made.model)
    free = {"stem.weight", *(["head.weight"] if number == 4 else [])}
    for name, values in zip(names, spectra[0, 0], strict=True):
        finite = values[~torch.from_numpy(values).isnan().numpy()]
        assert (abs(finite - 1).max() < 1e-4) == (name not in free)


def test_without_a_constraint_nothing_is_violated():
    made = training()
    made.advance()
    assert made.violation() == 0


def test_the_penalty_is_that_of_the_formula_on_all_weights_but_the_first():
    made = training(method=IMAGE_METHODS[2])
    held = {name: w for name, w in made.model.named_parameters() if w.dim() > 1 and name != "stem.weight"}
    expected = 0.0
    for weight in held.values():
        W = weight.detach().flatten(1).double()
        W = W if W.shape[0] >= W.shape[1] else W.T
        expected += float((W.T @ W - torch.eye(W.shape[1])).square().sum())
    assert made._penalty().item() == pytest.approx(0.01 * expected, rel=1e-5)
    assert training()._penalty() == 0


@pytest.mark.parametrize(
    ("radius", "moves"), [(1.0, False), (2.0, True)], ids=["r_N = 1, as in the paper", "r_N = 2"]
)
def test_gains_that_start_at_their_bound_never_move(radius, moves):
    """dV/dα = -G r sin α is 0 at α = 0: the circle freezes the gains of the paper's layer norms at 1."""
    radii = (*RADII[:3], radius, RADII[4])
    made = training(WORDS, Method("c-CoLud", 0.4, "CoLud", friction=0.5, radii=radii), epochs=5)
    for _ in range(5):
        made.advance()
    change = made.task.watch(made.model)["norm_gain_change"]
    assert change > 1e-3 if moves else change == 0
    grads = [norm.grad for name, norm in made.model.named_parameters() if "norm" in name and "weight" in name]
    assert all(float(grad.abs().max()) > 0 for grad in grads)  # the loss would have them move


def test_noise_lets_them_go():
    warm = Method("c-CoLud", 0.4, "CoLud", friction=0.5, radii=RADII, temperature=1e-4)
    made = training(WORDS, warm)
    made.advance()
    assert made.task.watch(made.model)["norm_gain_change"] > 0


def test_the_learning_rate_follows_its_schedule_in_sgds_scale():
    sgd, colud = training(), training(method=IMAGE_METHODS[4])
    for made, expected in ((sgd, (0.1, 0.01, 0.001)), (colud, (0.3, 0.3 * 0.1**0.5, 0.03))):
        for rate in expected:
            made.advance()
            assert float(made.optimizer.param_groups[0]["lr"]) == pytest.approx(rate)


def test_gradients_are_clipped():
    clipped = training(TextProblem("ptb", batch=3, length=20, width=8, words=150, clip=1e-3))
    clipped.advance()
    norm = math.sqrt(sum(float(weight.grad.square().sum()) for weight in clipped.weights))
    assert norm <= 1.001e-3


def test_a_training_that_diverges_is_lost_and_goes_on_to_the_end():
    made = training(method=Method("wild", 1e20, "ConstrainedSGD", momentum=0.9))
    for _ in range(3):
        made.advance()
    assert made.lost
    assert made.epoch == 3
    assert bool(made.measure().isnan().all())
    with torch.no_grad():
        made.weights[0].fill_(math.nan)
    _, spectra = singular_values(made.model)
    assert bool(np.isnan(spectra[0, 0, 0]).all())
    assert bool(np.isfinite(spectra[0, 0, 1, 0]))


def test_fallbacks_are_counted_through_a_checkpoint():
    wild = Method("o-CoLud", 200.0, "ConstrainedSGD", momentum=0.9, square="orthogonal")
    whole, first, second = (training(method=wild) for _ in range(3))
    for _ in range(3):
        whole.advance()
    first.advance()
    assert first.fallbacks > 0
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        second.advance()
    assert second.fallbacks == whole.fallbacks > first.fallbacks


def test_the_time_of_a_step_leaves_the_first_epoch_out():
    made = training()
    made.advance()
    assert made.step_ms is None
    made.advance()
    assert made.step_ms > 0
    made._seconds = [100.0, 1.0, 2.0, 3.0]
    assert made.step_ms == pytest.approx(1000 * 2 / len(made.task.sizes))
