import math
from dataclasses import replace

import pytest
import torch

import colangevin as cl
from colangevin.experiments.catalogue.problems import ByteProblem
from colangevin.experiments.catalogue.source_code import FROBENIUS, METHODS, MUON, ORTHOGONAL, ROWS
from colangevin.experiments.data.sources import DataError
from colangevin.experiments.training import byte_task
from colangevin.experiments.training.byte_task import ByteTask

CPU = torch.device("cpu")
SMALL = ByteProblem("python", batch=3, length=10, steps=4, held_out=35, layers=1, width=8, heads=2)


@pytest.fixture
def make(monkeypatch):
    """A task on a text whose bytes count."""
    count = torch.arange(200, dtype=torch.uint8)
    monkeypatch.setattr(byte_task, "_load", lambda name, device: (count, count[:90]))
    return lambda run=0, **settings: ByteTask(replace(SMALL, **settings), run, 0, CPU)


def epoch(made, number=1):
    made.begin(number)
    start = torch.zeros((), dtype=torch.long)
    found = []
    for size in made.sizes:
        found.append(made.batch(start, size))
        start += size
    return [torch.cat(each) for each in zip(*found, strict=True)]


def test_pieces_come_from_places_that_are_drawn(make):
    made = make()
    assert made.sizes == [3, 3, 3, 3]
    x, y = epoch(made)
    assert x.shape == y.shape == (12, 10)
    assert torch.equal(y, x + 1)
    assert torch.equal(x, x[:, :1] + torch.arange(10))
    assert len(set(x[:, 0].tolist())) > 8
    assert torch.equal(epoch(made)[0], x)
    for other in (epoch(made, 2), epoch(make(run=1))):
        assert not torch.equal(other[0], x)


def test_every_place_of_the_text_can_be_drawn(make):
    x, y = epoch(make(steps=2000))
    assert (int(x.min()), int(x[:, 0].max()), int(y.max())) == (0, 189, 199)


def test_validation_and_test_are_different_halves_in_windows(make):
    made = make()
    for part, first in (("validation", 0), ("test", 45)):
        x, y = (torch.cat(each) for each in zip(*made.pieces(part), strict=True))
        assert torch.equal(x.flatten(), first + torch.arange(30))  # as many windows as fit into 35
        assert torch.equal(y, x + 1)
    assert sum(y.numel() for _, y in make(held_out=1000).pieces("test")) == 40  # of 45, 44 of which follow


def test_too_little_text_is_refused(make):
    with pytest.raises(DataError, match=r"has 200 bytes to train on and 90 held out; it must have more than"):
        make(length=45)
    make(length=44)


def test_the_learning_rate_rises_and_falls_in_straight_lines(make):
    rates = [make().learning_rate(number, 100) for number in range(1, 101)]
    assert rates[:5] == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
    assert rates[5:] == pytest.approx([(94.5 - k) / 95 for k in range(95)])
    assert make().learning_rate(1, 1) == pytest.approx(0.5)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_what_holds_the_hidden_matrices(make, method):
    made = make()
    torch.manual_seed(0)
    model = made.model(method)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    groups = cl.constrain(model, made.rules(method))
    held = {name: group["constraint"] for group in groups for name, _ in group["params"]}
    hidden = made.hidden(model)
    assert len(hidden) == 6
    for name, weight in model.named_parameters():
        kinds = {"free": cl.Free, "orthogonal": cl.Orthogonal}
        kind = kinds.get(method.hidden, cl.Sphere) if name in hidden else cl.Free
        assert isinstance(held[name], kind)
        if kind is cl.Sphere:
            assert held[name].over == ("rows" if method.hidden == "row spheres" else "matrix")
            assert torch.equal(weight, before[name])
    assert method.constrained == (method.hidden != "free")


def test_the_norm_of_hidden_rows(make):
    made = make()
    model = made.model(MUON)
    rows = [weight for name, weight in model.named_parameters() if name in made.hidden(model)]
    squares = torch.cat([weight.detach().double().square().sum(1) for weight in rows])
    assert made.watch(model)["hidden_norm"] == pytest.approx(math.sqrt(squares.mean()), rel=1e-6)


def test_spheres_and_orthogonal_weights_have_other_rules(make):
    made = make()
    assert len({repr(made.rules(method)) for method in (MUON, ROWS, FROBENIUS, ORTHOGONAL)}) == 4
