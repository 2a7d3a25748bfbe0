import os
import random
import subprocess
import sys
import time
import urllib.error

import pytest
from typer.testing import CliRunner

from colangevin import experiments
from colangevin.experiments import cli
from colangevin.experiments.catalogue import index
from colangevin.experiments.data import download
from colangevin.experiments.judging import plane
from colangevin.experiments.models.resnet import ResNet34
from colangevin.experiments.training import image_task
from tests.experiments.command_line import contents, finish, start, wait_for
from tests.experiments.tiny import experiment


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(["part-1", "part-2"], id="twice"),
        pytest.param(["part-1"] * 5 + ["part-2"] * 5, id="ten times", marks=pytest.mark.slow),
    ],
)
def test_killed_at_random_moments_and_resumed_it_ends_with_the_same_bytes(whole, tmp_path, parts):
    moments = random.Random(0)
    folder = tmp_path / "four-turn"
    process = start("run", "fig4", "--out", tmp_path)
    kills = 0
    for part in parts:
        done = folder / f"{part}.json"
        wait_for(lambda part=part, done=done: (folder / f"{part}.pt").exists() or done.exists(), process)
        time.sleep(moments.uniform(0, 0.1))
        kills += process.poll() is None
        process.kill()
        finish(process)
        process = start("run", "fig4", "--out", tmp_path, "--resume")
    status, text = finish(process)
    assert status == 0, text
    assert kills
    assert contents(folder) == whole


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(index, "EXPERIMENTS", (experiment(),))
    monkeypatch.setattr(cli, "EXPERIMENTS", (experiment(),))
    monkeypatch.setattr(plane, "GRID", 60)
    monkeypatch.setattr(plane, "PICTURE", 12)


def call(*words):
    return CliRunner().invoke(cli.app, list(map(str, words)))


def test_list_shows_names_and_figures(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    answer = call("list")
    assert answer.exit_code == 0
    for text in ("two-turn", "fashion-mnist-grid", "fig4, figD2", "100 runs, 10,000 epochs"):
        assert text in answer.output


@pytest.mark.parametrize("columns", [80, 30])
def test_list_breaks_no_word(monkeypatch, columns):
    """As in a pipe or a terminal of 80 columns; in a narrow one lines are longer rather than broken."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = call("list").output.splitlines()
    if columns == 80:
        assert max(map(len, lines)) <= 80
    words = {word.strip("(),;") for line in lines for word in line.split()}
    for each in index.EXPERIMENTS:
        assert f"{each.name} ({', '.join(each.covers)})" in lines
        assert {word.strip("(),;") for word in each.title.split()} <= words


def test_the_short_list_is_names_alone(monkeypatch):
    monkeypatch.setenv("COLUMNS", "8")  # fewer than a name has letters
    assert call("list", "--short").output.splitlines() == [each.name for each in index.EXPERIMENTS]


@pytest.mark.parametrize(("runs", "epochs", "size"), [(1, 1, "1 run, 1 epoch"), (2, 3, "2 runs, 3 epochs")])
def test_sizes_read_as_english(runs, epochs, size):
    assert cli._size(experiment().resized(runs, epochs, quick=False)).endswith(f" × {size}")


@pytest.mark.usefixtures("tiny")
def test_run_then_report(tmp_path):
    answer = call(
        "run", "fig4", "four-turn", "--runs", 1, "--epochs", 2, "--device", "cpu", "--out", tmp_path
    )
    assert answer.exit_code == 0, answer.output
    assert "o-CoLod τ" in answer.output
    assert "test accuracy" in answer.output
    assert f"colangevin report {tmp_path}" in answer.output
    again = call("run", "fig4", "--runs", 1, "--epochs", 2, "--out", tmp_path)
    assert again.exit_code == 1
    assert "has results already. Add --resume" in again.output
    other = call("run", "fig4", "--runs", 1, "--epochs", 3, "--out", tmp_path, "--resume")
    assert other.exit_code == 1
    assert "experiment: epochs: 2 there, 3 now" in other.output
    same = call("run", "fig4", "--runs", 1, "--epochs", 2, "--device", "cpu", "--out", tmp_path, "--resume")
    assert same.exit_code == 0, same.output
    answer = call("report", tmp_path)
    assert answer.exit_code == 0, answer.output
    assert "    test accuracy: " in answer.output
    assert answer.output.splitlines()[-1] == str((tmp_path / "report.html").resolve())


@pytest.mark.usefixtures("tiny")
def test_quick_is_small(tmp_path):
    answer = call("run", "fig4", "--quick", "--out", tmp_path)
    assert answer.exit_code == 0, answer.output
    assert "1/1" in answer.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "fig9"), "no experiment 'fig9'"),
        (("run", "fig4", "--device", "tpu"), "must be cpu or cuda"),
        (("run", "fig4", "--runs", 0), "--runs"),
        (("report", "/nonexistent"), "/nonexistent has no complete results to report on"),
    ],
)
def test_wrong_words_are_explained(words, message, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    answer = call(*words)
    assert answer.exit_code != 0
    assert message in answer.output


def test_cuda_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    answer = call("run", "fig4", "--device", "cuda")
    assert "finds no CUDA device here; use cpu" in answer.output


def test_missing_data_are_explained(monkeypatch, tmp_path):
    from colangevin.experiments.data import fashion_mnist, sources

    def nowhere(*_):
        raise sources.DataError("Fashion-MNIST is not on this machine")

    monkeypatch.setattr(fashion_mnist, "locate", nowhere)
    answer = call("run", "fig7", "--quick", "--out", tmp_path)
    assert answer.exit_code == 1
    assert "Fashion-MNIST is not on this machine" in answer.output


def test_missing_extra_is_named(monkeypatch):
    from colangevin.__main__ import main

    monkeypatch.delattr(experiments, "cli", raising=False)
    monkeypatch.delitem(sys.modules, "colangevin.experiments.cli", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)  # what Python takes for "cannot be imported"
    with pytest.raises(SystemExit, match=r'needs typer,(.|\n)*pip install "colangevin\[experiments\]"'):
        main()


@pytest.mark.usefixtures("small_data")
@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("fig6", "*: *"),
        ("resnet34-short", "*: SGD-m, run 1"),
        ("resnet34-identities", "*: SGD-m, run 1"),
        ("resnet34-penalty", "*λ=1e-1*"),
        ("figD3", "*: o-CoLod*"),
        ("resnet34-time", "*: o-CoLud, run 1"),
        ("tab2", "*"),
        ("transformer-search", "*"),
        ("transformer-nearest", "*"),
        ("transformer-best", "*"),
        ("hmc-distance", "*, run 1"),
    ],
)
def test_quick_forms_of_the_networks_run_on_small_data(monkeypatch, tmp_path, name, only):
    # a thinner network than that of the quick form, for the sake of the clock
    monkeypatch.setattr(image_task, "ResNet34", lambda width, **options: ResNet34(width=2, **options))
    monkeypatch.setenv("COLUMNS", "200")
    answer = call("run", name, "--quick", "--device", "cpu", "--out", tmp_path, "--only", only)
    assert answer.exit_code == 0, answer.output
    assert "test loss" in answer.output
    answer = call("report", tmp_path)
    assert answer.exit_code == 0, answer.output
    assert "| method |" in (tmp_path / "report.md").read_text()


def test_predictions_that_are_nowhere_end_the_run_with_what_to_do(small_data, monkeypatch, tmp_path):
    (small_data / "hmc-cifar10" / "probs.csv").unlink()

    def unreachable(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(download.urllib.request, "urlopen", unreachable)
    answer = call("run", "hmc-distance", "--quick", "--device", "cpu", "--out", tmp_path)
    assert answer.exit_code == 1
    assert "the predictions of HMC on CIFAR-10 is not on this machine" in answer.output
    assert f"Put the file there: {small_data / 'hmc-cifar10' / 'probs.csv'}" in answer.output


def test_a_glob_that_is_no_text_is_shown_as_text(tmp_path):
    answer = call("run", "fig4", "--quick", "--out", tmp_path, "--only", os.fsdecode(b"\xff"))
    assert answer.exit_code == 1
    assert "--only '\ufffd' matches no job of four-turn" in answer.output


def test_more_runs_than_a_report_can_hold_are_refused_before(tmp_path):
    answer = call("run", "fig4", "--runs", 10**9, "--out", tmp_path)
    assert answer.exit_code == 1
    assert "--runs: runs 1,000,000,000 of every method are" in answer.output
    assert not (tmp_path / "four-turn").exists()


@pytest.mark.usefixtures("small_data")
def test_a_glob_that_fits_nothing_lists_the_jobs(tmp_path):
    answer = call("run", "fig6", "--quick", "--out", tmp_path, "--only", "SGD")
    assert answer.exit_code == 1
    assert "--only 'SGD' matches no job of resnet34. Its jobs are:" in answer.output
    assert "    CIFAR-10: o-CoLud, run 1" in answer.output
    assert not (tmp_path / "resnet34").exists()


def test_run_without_a_name_asks_for_one() -> None:
    for words in ((), ("--",)):
        said = subprocess.run(
            [sys.executable, "-m", "colangevin", "run", *words], capture_output=True, text=True, check=False
        )
        assert said.returncode == 2
        assert "Missing argument" in said.stderr
        assert "Traceback" not in said.stderr


def test_info_takes_nothing_more() -> None:
    command = [sys.executable, "-m", "colangevin", "info"]
    said = subprocess.run([*command, "extra"], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert "colangevin info: got 'extra', but takes nothing more. Leave it out." in said.stderr
    said = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("Usage: colangevin info")
