import math
from dataclasses import replace

import pytest
import torch

import colangevin as cl
from colangevin.experiments.catalogue.hmc_distance import (
    COLUD,
    CYCLICAL,
    METHODS,
    OTHER,
    SGD,
    SGLD,
    SPHERES,
)
from colangevin.experiments.catalogue.problems import PosteriorProblem
from colangevin.experiments.judging.agreement import agreement, total_variation
from colangevin.experiments.judging.chains import TRACES
from colangevin.experiments.training.posterior_training import PosteriorTraining, at_the_posterior

pytestmark = pytest.mark.usefixtures("small_data")

PROBLEM = PosteriorProblem(train=24, test=6, batch=12, width=2, start=20)
EPOCHS = 10  # 2 under SGD; samples from epoch 4 on
EVERY = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def training(method=COLUD, run=0, problem=PROBLEM, epochs=EPOCHS):
    return PosteriorTraining(problem, method, run, epochs=epochs, seed=0, device=torch.device("cpu"))


def trained(made, epochs):
    """What is measured after every epoch."""
    measured = []
    for _ in range(epochs):
        made.advance()
        measured.append(made.measure())
    return torch.stack(measured)


def flat(made):
    return torch.cat([value.flatten().double() for value in made.model.state_dict().values()])


def named(made, measured):
    return dict(zip(made.task.curves, measured.flatten().tolist(), strict=True))


@EVERY
@pytest.mark.parametrize("stop", [1, 2, 6])
def test_resumed_equals_uninterrupted_bit_for_bit(method, stop, tmp_path):
    method = replace(method, cycles=min(method.cycles, 2))
    whole, first = training(method), training(method)
    curves = trained(whole, EPOCHS)
    trained(first, stop)
    torch.save(first.state_dict(), tmp_path / "state")
    second = training(method)
    second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    rest = trained(second, EPOCHS - stop)
    torch.testing.assert_close(rest, curves[stop:], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(flat(whole), flat(second))
    assert torch.equal(whole.predictions(), second.predictions())
    for name in TRACES:
        assert torch.equal(whole.traces()[name], second.traces()[name])


def test_temperature_and_weight_decay_are_those_of_the_posterior():
    found = at_the_posterior(COLUD, 1000)
    assert (found.temperature, found.weight_decay) == pytest.approx((1e-3, 5e-3))
    assert at_the_posterior(OTHER, 1000).weight_decay == pytest.approx(1 / 5000)
    assert at_the_posterior(SGD, 1000).temperature == 0
    made = training()
    trained(made, 3)
    group = made.optimizer.param_groups[0]
    assert (group["temperature"], group["weight_decay"]) == pytest.approx((1 / 24, 5 / 24))
    assert (group["splitting"], group["friction"], float(group["lr"])) == ("BAOAB", 0.5, pytest.approx(0.1))


def test_samplers_of_a_run_begin_where_the_same_sgd_ends():
    chains = [training(method) for method in (SGLD, COLUD, CYCLICAL)]
    for made in chains:
        trained(made, 2)
        assert isinstance(made.optimizer, cl.ConstrainedSGD)
        assert torch.equal(flat(made), flat(chains[0]))
    trained(chains[1], 1)
    assert isinstance(chains[1].optimizer, cl.CoLud)
    assert not torch.equal(flat(training(run=1)), flat(training()))


@EVERY
def test_every_method_takes_the_same_number_of_gradients(method, monkeypatch):
    made, sizes = training(method), []
    batch = made.task.batch
    monkeypatch.setattr(made.task, "batch", lambda start, size: sizes.append(size) or batch(start, size))
    for _ in range(4):
        made.advance()
    assert sum(sizes) == 4 * PROBLEM.gradients_of_an_epoch == 4 * 24


def test_predictions_are_means_of_probabilities_past_the_burn_in():
    made, seen = training(), []
    for epoch in range(1, EPOCHS + 1):
        made.advance()
        if epoch > 3:
            logits = torch.cat([made.model(x) for x, _ in made.task.pieces("test")])
            seen.append(logits.detach().double().softmax(1))
        else:
            assert made.samples == 0
            assert torch.equal(made.predictions(), made._now())
    assert made.samples == len(seen) == 7
    expected = torch.stack(seen).mean(0)
    torch.testing.assert_close(made.predictions(), expected)
    values = named(made, made.measure())
    assert values["total_variation"] == pytest.approx(total_variation(expected, made.task.reference))
    assert values["agreement"] == agreement(expected, made.task.reference)
    own = expected.gather(1, made.task.y_test.unsqueeze(1))
    assert values["test_loss"] == pytest.approx(float(-own.log().mean()))


def test_sgd_is_not_averaged_and_its_rate_falls_to_0():
    made = training(SGD)
    trained(made, EPOCHS)
    assert made.samples == 0
    assert torch.equal(made.predictions(), made._now())
    assert float(made._lr) == pytest.approx(0.1 * made.task.learning_rate(EPOCHS, EPOCHS))


def test_a_cyclical_chain_samples_at_the_end_of_its_cycles_alone():
    made = training(replace(CYCLICAL, cycles=2), epochs=14, problem=replace(PROBLEM, start=30))
    temperatures, rates, counts = [], [], []
    for _ in range(14):
        made.advance()
        counts.append(made.samples)
        rates.append(float(made._lr) / 0.1)
        if made._schedule is not None:
            temperatures.append(made._temperature > 0)
    # two cycles of 5 epochs after 4 under SGD; what is seen is the temperature of the next epoch
    assert made._cycle == 5
    assert temperatures == [False, False, False, True, False] * 2
    assert [b - a for a, b in zip([0, *counts], counts, strict=False)] == [0] * 8 + [1] + [0] * 4 + [1]
    assert rates[4:9] == rates[9:]
    expected = [math.sqrt(made.task.learning_rate(epoch, 5)) for epoch in range(1, 6)]
    assert rates[4:9] == pytest.approx(expected)


def test_kernels_stay_on_their_spheres_under_sgd_and_under_the_sampler():
    made = training(SPHERES)
    for _ in range(EPOCHS):
        made.advance()
        assert 0 < made.violation() < 1e-5
    rows = made.model.stem.conv.weight.detach().flatten(1)
    torch.testing.assert_close(rows.norm(dim=1), torch.full((2,), math.sqrt(27 / 5)))


def test_the_kinetic_temperature_is_over_that_of_the_noise_since_the_last_measurement():
    made, kinetic = training(), []
    for _ in range(4):
        made.advance()
        if made.epoch > 2:
            kinetic.append(cl.diagnostics.kinetic_temperature(made.optimizer)["stem.conv.weight"] * 24)
    assert named(made, made.measure())["first_temperature"] == pytest.approx(sum(kinetic) / 2)
    made.advance()
    last = cl.diagnostics.kinetic_temperature(made.optimizer)["stem.conv.weight"] * 24
    assert named(made, made.measure())["first_temperature"] == pytest.approx(last)
    assert math.isnan(named(sgld := training(SGLD), trained(sgld, 3)[-1])["first_temperature"])


def test_traces_are_of_the_network_as_it_is():
    made = training()
    trained(made, 5)
    found = made.traces()
    kernel = made.model.stem.conv.weight.detach()
    assert found["kernel_norms"].shape == (5, 22)
    assert found["kernel_norms"][-1, 0] == pytest.approx(float(kernel.norm()))
    assert found["kernel_entries"].shape == (5, 44)
    assert found["kernel_entries"][-1, :2].tolist() == [kernel.flatten()[0], kernel.flatten()[-1]]
    own = made._now().gather(1, made.task.y_test.unsqueeze(1)).squeeze(1).log()
    assert found["log_probabilities"].shape == (5, 7)  # 6 images, and their mean
    torch.testing.assert_close(found["log_probabilities"][-1, :6].double(), own)
    assert found["log_probabilities"][-1, 6] == pytest.approx(float(own.mean()))


def test_the_norm_is_that_of_all_weights():
    made = training()
    values = named(made, trained(made, 1))
    assert values["weight_norm"] == pytest.approx(float(flat(made).norm()))


def test_a_chain_that_diverges_predicts_nothing():
    made = training(replace(COLUD, lr=1e20))
    measured = trained(made, EPOCHS)
    assert made.lost
    assert bool(measured[-1].isnan().all())
    assert bool(made.predictions().isnan().all())
