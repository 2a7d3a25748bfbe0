"""Large networks on CUDA: steps are replays of a graph, and a resumed training goes on as it would have.

Not bit for bit: cuDNN and the attention's backward add up in any order, and products are of bfloat16 numbers,
so that two trainings with the same seeds differ in rounding. The tolerance is some 10 of those roundings, of
0.4 % each, on short trainings with a small step, in which they are not yet amplified.
"""

from dataclasses import replace

import pytest
import torch

from colangevin.experiments.catalogue import hmc_distance
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import ByteProblem, ImageProblem, PosteriorProblem, TextProblem
from colangevin.experiments.catalogue.source_code import METHODS
from colangevin.experiments.training import image_task, posterior_task, step_graphs, text_task
from colangevin.experiments.training.network_training import NetworkTraining
from colangevin.experiments.training.posterior_training import PosteriorTraining
from tests.experiments.small_data import lay_out

pytestmark = pytest.mark.gpu

EPOCHS, TOLERANCE = 4, 0.04
IMAGES = ImageProblem(train=60, test=12, batch=8, width=16, stages=1)
WORDS = TextProblem("ptb", batch=4, length=10, width=32)
BYTES = ByteProblem("python", batch=8, length=64, steps=8, held_out=4096, layers=2, width=64, heads=4)
SGD = Method("SGD-m", 0.01, "ConstrainedSGD", momentum=0.9)
HELD = Method("o-CoLud", 0.01, "ConstrainedSGD", momentum=0.9, square="orthogonal")
FLAT = Method("o-CoLod", 0.01, square="orthogonal")
SOFT = Method("penalty", 0.01, "ConstrainedSGD", momentum=0.9, penalty=1e-3)
BOUND = Method("c-CoLud", 0.1, "CoLud", friction=0.5, radii=(0.5, 0.5, 0.4, 1.0, 1.0))
CASES = pytest.mark.parametrize(
    ("problem", "method"),
    [
        *(pytest.param(IMAGES, method, id=f"images, {method.name}") for method in (SGD, HELD, FLAT, SOFT)),
        *(pytest.param(WORDS, method, id=f"text, {method.name}") for method in (SGD, BOUND)),
    ],
)


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    lay_out(tmp_path, monkeypatch)
    for module in (image_task, posterior_task, text_task):
        module._load.cache_clear()


def training(problem, method):
    return NetworkTraining(problem, method, 0, epochs=EPOCHS, seed=0, device=torch.device("cuda"))


def trained(made, epochs):
    """The training loss of every epoch."""
    losses = []
    for _ in range(epochs):
        made.advance()
        losses.append(float(made.measure()[0]))
    return torch.tensor(losses)


@CASES
def test_all_steps_come_from_graphs_and_nothing_takes_the_plain_path(problem, method):
    made = training(problem, method)
    trained(made, EPOCHS)
    assert set(made.steps.captured) == set(made.task.sizes)
    assert all(mover.watches for mover in made.optimizer._plan.movers)


@CASES
def test_graphs_take_the_steps_that_would_be_taken_one_by_one(problem, method, monkeypatch):
    graphed = trained(training(problem, method), EPOCHS)
    monkeypatch.setattr(step_graphs, "_EAGER", 10_000)
    eager = training(problem, method)
    torch.testing.assert_close(trained(eager, EPOCHS), graphed, rtol=TOLERANCE, atol=0)
    assert not eager.steps.captured


@CASES
def test_resumed_goes_on_as_uninterrupted(problem, method):
    whole = trained(training(problem, method), EPOCHS)
    first, second = training(problem, method), training(problem, method)
    trained(first, 2)
    second.load_state_dict(first.state_dict())
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name])
    torch.testing.assert_close(trained(second, EPOCHS - 2), whole[2:], rtol=TOLERANCE, atol=0)


def test_a_graph_follows_the_learning_rate_and_draws_dropout_anew():
    made = training(WORDS, SGD)
    trained(made, 2)
    size = WORDS.length
    weights = [weight.detach().clone() for weight in made.weights]
    for group in made.optimizer.param_groups:
        for weight in group["params"]:
            made.optimizer.state[weight]["momentum"].zero_()
    made._lr.zero_()
    losses = []
    for _ in range(2):
        made._start.zero_()
        made._loss.zero_()
        made.steps.captured[size].replay()
        losses.append(float(made._loss))
    for weight, before in zip(made.weights, weights, strict=True):
        assert torch.equal(weight, before)
    assert losses[0] != losses[1]


def test_constraint_holds_and_no_fallback_is_taken():
    made = training(IMAGES, HELD)
    trained(made, EPOCHS)
    assert 0 < made.violation() < 1e-4
    assert made.fallbacks == 0


def test_fallbacks_are_counted_in_graphs():
    made = training(IMAGES, Method("wild", 200.0, "ConstrainedSGD", momentum=0.9, square="orthogonal"))
    counts = []
    for _ in range(3):
        made.advance()
        counts.append(made.fallbacks)
    assert 0 < counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_decoder_is_compiled_and_its_optimizers_step_outside_of_graphs(method):
    whole, first, second = (training(BYTES, method) for _ in range(3))
    losses = trained(whole, EPOCHS)
    assert losses[-1] < 0.9 * losses[0]
    assert not whole.steps.captured
    assert whole.violation() < 1e-5
    trained(first, 2)
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(trained(second, EPOCHS - 2), losses[2:], rtol=TOLERANCE, atol=0)


@pytest.mark.parametrize("method", hmc_distance.METHODS, ids=lambda method: method.name)
def test_chains_of_a_posterior_come_from_graphs_and_go_on_as_uninterrupted(method):
    problem = PosteriorProblem(train=60, test=12, batch=8, width=16, start=25, start_rate=0.01)
    # at a low temperature and with small steps, so that rounding is not yet amplified
    mild = replace(method, lr=0.2 * method.lr, temperature=1e-3 * method.temperature)

    def chain():
        return PosteriorTraining(problem, mild, 0, epochs=9, seed=0, device=torch.device("cuda"))

    whole, first, second = chain(), chain(), chain()
    losses = trained(whole, 9)
    assert set(whole.steps.captured) == set(whole.task.sizes)
    assert all(mover.watches for mover in whole.optimizer._plan.movers)
    assert whole.violation() < 1e-4
    trained(first, 6)
    second.load_state_dict(first.state_dict())
    assert second.samples == first.samples
    torch.testing.assert_close(trained(second, 3), losses[6:], rtol=TOLERANCE, atol=0)
    assert second.samples == whole.samples
