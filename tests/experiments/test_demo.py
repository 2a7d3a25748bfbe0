import sys

import pytest
import torch

from colangevin import experiments
from colangevin.experiments import demo
from colangevin.experiments.four_turn import Job, run, training_points
from colangevin.experiments.mlp import MLP

PNG = b"\x89PNG\r\n\x1a\n"


def test_demo_prints_a_table_and_draws_a_picture(tmp_path, capsys):
    pytest.importorskip("rich")
    pytest.importorskip("matplotlib")
    out = tmp_path / "new" / "folder"
    demo.main(["--runs", "1", "--epochs", "2", "--depth", "2", "--out", str(out)])
    text = capsys.readouterr().out
    assert "o-CoLod" in text
    assert "SGD" in text
    assert "test accuracy" in text
    picture = out / "demo.png"
    assert text.rstrip().endswith(str(picture))
    assert picture.read_bytes().startswith(PNG)


def test_constrained_run_stays_on_the_manifold():
    outcome = run(Job("o-CoLod", run=0, depth=3, epochs=2))
    assert outcome.violation is not None
    assert outcome.violation < 1e-5
    assert run(Job("SGD", run=0, depth=3, epochs=1)).violation is None


def test_runs_can_be_repeated():
    job = Job("o-CoLod", run=1, depth=2, epochs=1)
    assert run(job) == run(job)


def test_every_epoch_is_counted():
    seen = []
    run(Job("SGD", run=0, depth=2, epochs=3), after_epoch=seen.append)
    assert seen == [1, 2, 3]


def test_runs_have_data_of_their_own():
    assert not torch.equal(training_points(0)[0], training_points(1)[0])


def test_square_weights_are_those_between_hidden_layers():
    model = MLP(depth=4, width=5)
    parameters = dict(model.named_parameters())
    assert model.square_weights == ["hidden.1.weight", "hidden.2.weight", "hidden.3.weight"]
    assert all(parameters[name].shape == (5, 5) for name in model.square_weights)
    assert model(torch.zeros(7, 2)).shape == (7,)


def test_mlp_without_hidden_layer_is_refused():
    with pytest.raises(ValueError, match="depth=0: an MLP needs at least 1 hidden layer"):
        MLP(depth=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "argument --epochs: must be at least 1, got 0"),
        (["--runs", "some"], "argument --runs: invalid"),
        (["--depth", "1"], "argument --depth: below 2"),
    ],
)
def test_wrong_arguments_are_explained(arguments, message, capsys):
    with pytest.raises(SystemExit):
        demo.main(arguments)
    assert message in capsys.readouterr().err


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.delattr(experiments, "display", raising=False)
    for module in ("colangevin.experiments.display", "rich.console"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "rich", None)  # what Python takes for "cannot be imported"
    with pytest.raises(SystemExit, match=r'needs rich,(.|\n)*pip install "colangevin\[experiments\]"'):
        demo.main([])
