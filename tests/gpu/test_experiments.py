"""Experiments on CUDA: an epoch is the replay of a graph, and resuming still loses no bit."""

import pytest
import torch

from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.training.points import prepare
from colangevin.experiments.training.stack_training import StackTraining
from tests.experiments.tiny import METHODS, problem

pytestmark = pytest.mark.gpu

RUNS, EPOCHS = 3, 6


def training(device="cuda"):
    part = Part("tiny", problem(depth=3, width=16), METHODS)
    return StackTraining(part, prepare(part.problem, RUNS, seed=0), RUNS, 0, torch.device(device))


def weights(made):
    return torch.cat([weight.detach().flatten().cpu() for weight in made.stack.weights.values()])


def trained(made, epochs, graph=True):
    for _ in range(epochs):
        if not graph:
            made._eager = False
        made.advance()
    return made


def test_the_graph_takes_the_steps_that_would_be_taken_one_by_one():
    graphed, eager = trained(training(), EPOCHS), trained(training(), EPOCHS, graph=False)
    assert graphed._graph is not None
    assert eager._graph is None
    assert torch.equal(weights(graphed), weights(eager))


def test_the_device_agrees_with_the_cpu_where_there_is_no_chaos():
    # one epoch: later on rounding is amplified by training itself
    torch.testing.assert_close(
        weights(trained(training(), 1)), weights(trained(training("cpu"), 1)), atol=1e-3, rtol=1e-3
    )


@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_resumed_equals_uninterrupted_bit_for_bit(epochs):
    whole = trained(training(), EPOCHS)
    state = trained(training(), epochs).state_dict()
    second = training()
    second.load_state_dict(state)
    trained(second, EPOCHS - epochs)
    assert torch.equal(weights(whole), weights(second))
    assert torch.equal(whole.measure(), second.measure())
