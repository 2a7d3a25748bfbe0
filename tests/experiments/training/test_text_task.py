import pytest
import torch

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import TextProblem
from colangevin.experiments.data.corpora import load
from colangevin.experiments.training.text_task import TextTask

CPU = torch.device("cpu")


@pytest.fixture
def make(small_data):
    return lambda **settings: TextTask(
        TextProblem(**{"data": "ptb", "batch": 4, "width": 8, **settings}), CPU
    )


def test_an_epoch_reads_every_piece_from_end_to_end(make):
    made = make()
    words = load("ptb").train
    rows = len(words) // 4  # 520 words: 130 in a row
    assert made.sizes == [35, 35, 35, 24]
    assert sum(made.sizes) == rows - 1
    start, read, asked = torch.zeros((), dtype=torch.long), [], []
    for size in made.sizes:
        x, y = made.batch(start, size)
        assert x.shape == y.shape == (4, size)
        read.append(x)
        asked.append(y)
        start += size
    pieces = words[: 4 * rows].view(4, rows)
    assert torch.equal(torch.cat(read, 1), pieces[:, :-1])
    assert torch.equal(torch.cat(asked, 1), pieces[:, 1:])


@pytest.mark.parametrize("length", [35, 43, 129, 1000])
@pytest.mark.parametrize("part", ["validation", "test"])
def test_every_word_held_out_is_predicted_once(make, length, part):
    words = getattr(load("ptb"), {"validation": "valid", "test": "test"}[part])
    pairs = [(x.flatten(), y.flatten()) for x, y in make(length=length).pieces(part)]
    assert torch.equal(torch.cat([x for x, _ in pairs]), words[:-1])
    assert torch.equal(torch.cat([y for _, y in pairs]), words[1:])
    assert max(x.shape[-1] for x, _ in make(length=length).pieces(part)) <= length


def test_a_small_form_reads_less_of_everything(make):
    made = make(words=200)
    assert sum(made.sizes) == 49
    assert sum(y.numel() for _, y in made.pieces("validation")) == 19


def test_radii_by_kind_of_layer(make):
    made, method = make(), Method("c", 0.4, radii=(0.5, 0.4, 0.36, 1.0, 0.9))
    model = made.model(method)
    with pytest.warns(UserWarning, match="start exactly at the bound"):
        groups = cl.constrain(model, made.rules(method))
    radii = {n: getattr(g["constraint"], "radius", None) for g in groups for n, _ in g["params"]}
    assert radii.pop("embedding.weight") == 0.5
    assert radii.pop("output.weight") == 0.4
    for name, radius in radii.items():
        kind = name.split(".")[2] if name.startswith("layers") and name.endswith("weight") else ""
        assert radius == {
            "linear1": 0.36,
            "linear2": 0.36,
            "norm1": 1.0,
            "norm2": 1.0,
            "attention": 0.9,
        }.get(kind)


def test_learning_rate_decays_by_the_epoch(make):
    assert make().learning_rate(200, 200) == 1
    assert make(decay=0.95).learning_rate(3, 200) == pytest.approx(0.95**2)
