"""``suggest``: radii that fit, layers to leave free, rates, and words where there is nothing to say."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import colangevin as cl
from colangevin import suggestions
from tests.optim_db import assert_identical


class Language(nn.Module):
    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(50, 16)
        self.places = nn.Parameter(torch.randn(1, 8, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(16, 50)
        if tied:
            self.head.weight = self.embed.weight


def convolutions() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 10))


def recurrent() -> nn.Module:
    torch.manual_seed(0)
    return nn.ModuleDict({"lstm": nn.LSTM(4, 5, 2), "rnn": nn.RNN(4, 5), "head": nn.Linear(5, 2)})


MODELS = {
    "language": Language,
    "convolutions": convolutions,
    "recurrent": recurrent,
    "one layer": lambda: nn.Linear(7, 5),
    "bfloat16": lambda: convolutions().bfloat16(),
    "float16": lambda: convolutions().half(),
    "float64": lambda: convolutions().double(),
    "not contiguous": lambda: convolutions().to(memory_format=torch.channels_last),
}


def assert_accepted(model: nn.Module) -> None:
    """The radii suggested are those of a model whose weights stay as they are."""
    rows = cl.suggest(model).rows
    circles = {row.name: cl.Circle(row.circle) for row in rows if row.circle is not None}
    spheres = {row.name: cl.Sphere(row.sphere) for row in rows if row.sphere is not None}
    assert len(circles) == len(spheres) > 0
    before = copy.deepcopy(model.state_dict())
    for rules in (circles, spheres):
        cl.constrain(model, rules, init="keep")
    assert_identical(dict(model.state_dict()), dict(before))


@pytest.mark.parametrize("name", MODELS)
def test_the_radii_are_accepted(name: str) -> None:
    assert_accepted(MODELS[name]())


@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 40),
    exponent=st.integers(-60, 36),
    tail=st.floats(0, 6),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_radii_of_any_weight_are_accepted(rows, columns, exponent, tail, dtype, seed) -> None:
    """Of every size, also where squares overflow or underflow, and with entries far larger than the rest."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    weight = (10.0**exponent * values * values.abs() ** tail).clamp(-1e37, 1e37).to(dtype)
    model = nn.ParameterDict({"w": nn.Parameter(weight)})
    if weight.any():
        assert_accepted(model)
    else:  # all of it underflowed
        assert cl.suggest(model).rows[0].circle is None


@pytest.mark.parametrize("size", [1e-45, 1e-38, 3.4e38])
def test_radii_stay_in_the_range_of_the_dtype(size: float) -> None:
    model = nn.ParameterDict({"w": nn.Parameter(torch.tensor([[size, 0.0]]))})
    (row,) = cl.suggest(model).rows
    for constraint in (cl.Circle(row.circle), cl.Sphere(row.sphere)):
        constraint.check(model["w"])


def test_the_numbers() -> None:
    weight = torch.tensor([[0.3, -0.4, 0.0, 0.0], [0.1, 0.1, 0.1, -0.1]])
    (row,) = cl.suggest(nn.ParameterDict({"w": nn.Parameter(weight)})).rows
    assert (row.name, row.shape) == ("w", (2, 4))
    assert math.isclose(row.largest_entry, 0.4, rel_tol=1e-6)
    assert math.isclose(row.largest_row, 0.5, rel_tol=1e-6)
    assert (row.circle, row.sphere) == (0.6, 0.75)  # 1.5 times each


def test_blocks_of_a_large_weight_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = convolutions()
    whole = cl.suggest(model).rows
    monkeypatch.setattr(suggestions, "_BLOCK", 5)
    for row, expected in zip(cl.suggest(model).rows, whole, strict=True):
        assert row == expected
    with torch.no_grad():
        model[3].weight[-1, -1] = torch.nan  # in the last block
    with pytest.raises(cl.ConstraintError, match=r"parameter '3\.weight' \(10, 8\): holds NaN or Inf"):
        cl.suggest(model)


def remarks(model: nn.Module) -> dict[str, str]:
    return {row.name: row.remark for row in cl.suggest(model).rows}


def test_remarks_on_a_language_model() -> None:
    found = remarks(Language())
    assert found["embed.weight"] == "embedding"
    assert found["places"] == "unknown"
    assert found["body.layers.0.self_attn.in_proj_weight"] == "stacked"
    assert found["body.layers.0.self_attn.out_proj.weight"] == ""
    assert found["head.weight"] == "last Linear"
    assert list(found.values()).count("last Linear") == 1


def test_a_weight_tied_to_an_embedding_is_an_embedding() -> None:
    found = remarks(Language(tied=True))
    assert found["embed.weight"] == "embedding"
    assert "head.weight" not in found
    assert "last Linear" not in found.values()


def test_remarks_on_other_layers() -> None:
    assert remarks(convolutions()) == {"0.weight": "", "3.weight": "last Linear"}
    found = remarks(recurrent())
    assert found["lstm.weight_ih_l0"] == found["lstm.weight_hh_l1"] == "stacked"
    assert found["rnn.weight_hh_l0"] == ""
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    assert set(remarks(normed).values()) == {"unknown"}


def test_the_table() -> None:
    text = str(cl.suggest(Language()))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].split() == ["weight", "shape", "entry", "Circle", "row", "Sphere", "Orthogonal"]
    alike = next(line for line in lines if "layers.{0..2}.linear1.weight x3 " in line)
    assert alike.endswith("yes")
    largest = max(row.circle for row in cl.suggest(Language()).rows if "linear1" in row.name)
    assert f" {largest:g} " in alike
    for note in (
        "\nlast Linear: ",
        "\nembedding: ",
        "\nstacked: ",
        "\nunknown: ",
        "leave them free",
        "1 / N",
    ):
        assert note in text
    assert "-: every entry is 0" not in text
    assert repr(cl.suggest(Language())) == text


def test_entries_are_printed_as_radii_that_fit() -> None:
    model = convolutions()
    line = str(cl.suggest(model)).splitlines()[1]
    entry, row = line.split()[5], line.split()[7]
    cl.constrain(model, {"0.weight": cl.Circle(float(entry))}, init="keep")
    cl.constrain(model, {"0.weight": cl.Sphere(float(row))}, init="keep")


def test_the_rates_are_one_step() -> None:
    """CoLud with the printed numbers takes the steps of ConstrainedSGD with the printed ones."""
    advice = cl.suggest(convolutions())
    assert "lr=0.1, momentum=0.9" in str(advice)
    assert "lr=0.316" in str(advice)
    assert "friction=0.333" in str(advice)
    ends = []
    for kind, options in (
        (cl.ConstrainedSGD, {"lr": advice.lr, "momentum": advice.momentum}),
        (cl.CoLud, {"lr": advice.step_size, "friction": advice.friction}),
    ):
        torch.manual_seed(0)
        model = nn.Linear(4, 4, dtype=torch.float64)
        opt = kind(cl.constrain(model, {"weight": cl.Orthogonal()}), **options)
        for _ in range(5):
            opt.zero_grad()
            model(torch.ones(2, 4, dtype=torch.float64)).square().sum().backward()
            opt.step()
        ends.append(model.weight.detach())
    torch.testing.assert_close(*ends)


def test_nothing_is_changed() -> None:
    model = Language()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    str(cl.suggest(model))
    assert_identical(dict(model.state_dict()), dict(before))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_replicas_share_their_radii() -> None:
    replicas = cl.Replicas(lambda: nn.Linear(3, 4), 5, seed=0)
    (row,) = cl.suggest(replicas).rows
    assert row.shape == (4, 3)
    assert row.remark == "last Linear"
    assert row.largest_entry == float(replicas.weight.detach().abs().max())
    assert math.isclose(row.largest_row, float(replicas.weight.detach().norm(dim=-1).max()), rel_tol=1e-6)
    replicas.constrain({"weight": cl.Circle(row.circle)}, init="keep")
    with pytest.raises(cl.ConstraintError, match=r"its module '0' is a Replicas"):
        cl.suggest(nn.Sequential(replicas))


def test_models_with_nothing_to_hold() -> None:
    assert str(cl.suggest(nn.ReLU())) == "ReLU has no weight matrix, so there is nothing to hold."
    assert str(cl.suggest(nn.LayerNorm(3))) == "LayerNorm has no weight matrix, so there is nothing to hold."


def test_weights_without_a_size() -> None:
    model = nn.ParameterDict({"zero": torch.zeros(2, 3), "none": torch.zeros(0, 3)})
    advice = cl.suggest(model)
    assert [(row.circle, row.sphere, row.largest_entry) for row in advice.rows] == [(None, None, 0.0)] * 2
    assert "\n-: every entry is 0, so there is no size to go by." in str(advice)


def test_a_dtype_that_is_not_trained() -> None:
    model = nn.Linear(3, 4)
    model.codes = nn.Parameter(torch.ones(4, 4, dtype=torch.int8), requires_grad=False)
    advice = cl.suggest(model)
    assert advice.others == ("codes",)
    assert "\nnot of a dtype that is trained: codes." in str(advice)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda: nn.Linear(3, 4, device="meta"),
            r"parameter 'weight' \(4, 3\): is on the device 'meta', .*to_empty",
        ),
        (
            lambda: nn.LazyLinear(3),
            r"parameter 'weight': has no shape yet\. Run the model on one batch first",
        ),
    ],
    ids=["meta", "lazy"],
)
def test_weights_without_values(model, message: str) -> None:
    with pytest.raises(cl.ConstraintError, match=message):
        cl.suggest(model())


def test_a_shard_is_refused() -> None:
    model = nn.Linear(3, 4)
    model.weight._is_flat_param = True
    with pytest.raises(cl.ConstraintError, match=r"parameter 'weight' \(4, 3\): is a flat shard"):
        cl.suggest(model)
