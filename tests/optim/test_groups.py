"""Groups print as a table of what is held and what is free, and are a list in everything else."""

import copy
import pickle

import pytest
import torch
from torch import nn

import colangevin as cl


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10))


def groups() -> list[dict]:
    return cl.constrain(perceptron(), {"0.weight": cl.Circle(0.05), "2.weight": cl.Circle(0.1)})


TABLE = """\
parameter  shape        constraint           weights
0.weight   (1000, 784)  Circle(radius=0.05)  784,000
2.weight   (10, 1000)   Circle(radius=0.1)    10,000
0.bias     (1000,)      free                   1,000
2.bias     (10,)        free                      10
held: 794,000 of 795,010 weights (99.9 %)"""


def test_the_table() -> None:
    assert repr(groups()) == str(groups()) == TABLE


def test_they_are_a_list() -> None:
    made = groups()
    assert isinstance(made, list)
    assert made == list(made)
    assert [*made, {}] != made
    assert len(made) == 3


@pytest.mark.parametrize("kept", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_copies_print_and_train_alike(kept) -> None:
    made = kept(groups())
    assert repr(made) == TABLE
    cl.CoLud(made, 0.1, friction=1.0)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, cl.CoLod])
def test_an_optimizer_copies_the_list_and_leaves_the_table(kind) -> None:
    made = groups()
    opt = kind(made, lr=0.1)
    opt.add_param_group({"params": [("more", nn.Parameter(torch.zeros(2)))]})
    assert len(made) == 3
    assert repr(made) == TABLE  # torch's own optimizers write 'params' and 'param_names' into the dicts


def transformer(layers: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def test_a_matrix_that_a_class_misses_stands_out() -> None:
    lines = repr(cl.constrain(transformer(12), {nn.Linear: cl.Orthogonal()})).splitlines()
    assert lines[4] == "layers.{0..11}.self_attn.in_proj_weight x12   (192, 64)  free matrix   147,456"
    assert lines[-2].startswith('free matrices: "layers.*.self_attn.in_proj_weight" (192, 64). ')
    assert lines[-1] == "held: 245,760 of 401,664 weights (61.2 %)"


def test_a_long_model_fits_a_screen() -> None:
    lines = repr(cl.constrain(transformer(12), {nn.Linear: cl.Orthogonal()})).splitlines()
    assert len(lines) == 15
    assert max(map(len, lines)) <= 100


def test_the_key_below_the_table_holds_what_it_names() -> None:
    net = transformer(3)
    made = cl.constrain(net, {nn.Linear: cl.Orthogonal()})
    key = repr(made).split('"')[1]
    again = repr(cl.constrain(net, {nn.Linear: cl.Orthogonal(), key: cl.Sphere(9.0)}))
    assert "free matri" not in again
    assert again.count("Sphere") == 1


def test_a_glob_that_would_fit_others_is_not_offered() -> None:
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)], nn.Linear(4, 2))
    note = repr(cl.constrain(net, {"4.weight": cl.Orthogonal()})).splitlines()[-2]
    assert note.startswith("free matrices: {0..3}.weight (4, 4). ")  # "*.weight" would fit the last one too


def test_many_free_matrices_are_counted() -> None:
    net = nn.Sequential(*[nn.Linear(n, n + 1) for n in range(1, 10)])
    text = repr(cl.constrain(net, {"0.weight": cl.Orthogonal()}))
    assert '"6.weight" (8, 7) and 2 more. ' in text.replace("\n ", "")


def test_of_replicas_one_is_shown() -> None:
    replicas = cl.Replicas(lambda: nn.Linear(3, 4), 5, seed=0)
    assert repr(replicas.constrain({"weight": cl.Orthogonal()})) == (
        "parameter  shape   constraint    weights\n"
        "weight     (4, 3)  Orthogonal()       12\n"
        "bias       (4,)    free                4\n"
        "held: 12 of 16 weights in each of 5 replicas (75.0 %)"
    )


def test_without_rules_nothing_is_held() -> None:
    text = repr(cl.constrain(perceptron(), {}))
    assert text.count("free matrix") == 2
    assert text.endswith("\nheld: 0 of 795,010 weights (0.0 %)")


def test_models_without_weights() -> None:
    assert repr(cl.constrain(nn.ReLU(), {})) == "no parameters"
    with pytest.warns(UserWarning, match="zero-element"):
        empty = nn.Linear(0, 3, bias=False)
    assert repr(cl.constrain(empty, {})).endswith("held: 0 of 0 weights")


def test_groups_that_users_add_are_shown() -> None:
    made = groups()
    made.append({"params": [nn.Parameter(torch.zeros(3, 2))], "constraint": cl.Sphere(1.0)})
    made.append({"params": nn.Parameter(torch.zeros(3)), "lr": 0.5})
    lines = repr(made).splitlines()
    assert lines[3].split() == [
        "param_groups[3].params[0]",
        "(3,",
        "2)",
        *["Sphere(radius=1,", "slack=True)", "6"],
    ]
    assert lines[6].split() == ["param_groups[4].params[0]", "(3,)", "free", "3"]


@pytest.mark.parametrize("thing", [5, {}, {"params": iter([])}, {"params": ["w"]}, {"params": [("w", 1, 2)]}])
def test_a_list_of_something_else_prints_as_a_list(thing) -> None:
    made = groups()
    made.append(thing)
    assert repr(made) == repr(list(made))
