import pytest
import torch

from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.training.points import prepare
from colangevin.experiments.training.stack_training import MEASURED, StackTraining
from tests.experiments.tiny import METHODS, problem

RUNS = 2


def training(**changes):
    part = Part("tiny", problem(**changes), METHODS)
    data = prepare(part.problem, RUNS, seed=0)
    return StackTraining(part, data, RUNS, 0, torch.device("cpu"))


def flat(made):
    return torch.cat([weight.detach().flatten() for weight in made.stack.weights.values()])


def batches(made, monkeypatch):
    """The points of every step of an epoch, by run."""
    seen = []
    monkeypatch.setattr(made.stack, "differentiate", lambda x, y: seen.append(x))
    monkeypatch.setattr(made.stack, "step", lambda: None)
    made.advance()
    return seen


def test_an_epoch_shows_every_run_its_own_points_once(monkeypatch):
    made = training(batch=5)
    seen = batches(made, monkeypatch)
    assert [x.shape[1] for x in seen] == [5, 5, 5, 5]
    for run in range(RUNS):
        shown = torch.cat([x[run] for x in seen])
        assert sorted(map(tuple, shown.tolist())) == sorted(map(tuple, made.data.x[run].tolist()))
    assert not torch.equal(seen[0][0], seen[0][1])


def test_a_batch_that_is_not_full_is_left_out(monkeypatch):
    assert [x.shape[1] for x in batches(training(batch=6), monkeypatch)] == [6, 6, 6]


def test_epochs_differ_in_their_order(monkeypatch):
    made = training()
    assert not torch.equal(batches(made, monkeypatch)[0], batches(made, monkeypatch)[0])


def test_an_epoch_can_be_one_step(monkeypatch):
    assert len(batches(training(steps=1), monkeypatch)) == 1


def test_runs_can_share_a_data_set(monkeypatch):
    made = training(one_data_set=True, batch=5)
    assert made.data.x.shape[0] == 1
    seen = torch.cat(batches(made, monkeypatch), dim=1)
    assert not torch.equal(seen[0], seen[1])  # the same points in another order
    assert sorted(seen[0].tolist()) == sorted(seen[1].tolist())


def test_runs_have_data_of_their_own():
    data = prepare(problem(), 3, seed=0)
    assert not torch.equal(data.x[0], data.x[1])
    assert torch.equal(data.x[1], prepare(problem(), 2, seed=0).x[1])
    assert not torch.equal(data.x[0], prepare(problem(), 1, seed=1).x[0])


def test_can_be_repeated():
    one, other = training(), training()
    for _ in range(2):
        one.advance()
        other.advance()
    assert torch.equal(flat(one), flat(other))


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_resumed_equals_uninterrupted_bit_for_bit(epochs, tmp_path):
    whole, first = training(), training()
    for _ in range(5):
        whole.advance()
    for _ in range(epochs):
        first.advance()
    torch.save(first.state_dict(), tmp_path / "state")
    second = training()
    second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    for _ in range(5 - epochs):
        second.advance()
    assert torch.equal(flat(whole), flat(second))
    assert torch.equal(whole.measure(), second.measure())


def test_measurements_have_a_place_for_every_copy():
    made = training()
    made.advance()
    measured = made.measure()
    assert measured.shape == (len(MEASURED), len(METHODS), RUNS)
    assert bool(measured.isfinite().all())
