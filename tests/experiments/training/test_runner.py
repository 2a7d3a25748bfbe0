import os

import numpy as np
import pytest
import torch

from colangevin.experiments.catalogue.jobs import jobs
from colangevin.experiments.storage.disk import StoreError
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.training import runner
from colangevin.experiments.training.runner import measuring_epochs, run
from tests.experiments.conftest import Nobody
from tests.experiments.storage.test_folder import full_disk
from tests.experiments.tiny import experiment, networks, posteriors

pytestmark = pytest.mark.usefixtures("small_grid")

CPU = torch.device("cpu")


def opened(path, what, resume=False):
    folder = Folder(path, what.name)
    folder.open(what, CPU, ["colangevin"], resume=resume)
    return folder


def contents(folder):
    """The files that depend on the settings alone."""
    return {p.name: p.read_bytes() for p in sorted(folder.path.iterdir()) if p.name != "run.json"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    from colangevin.experiments.judging import plane

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plane, "GRID", 60)
        patch.setattr(plane, "PICTURE", 12)
        folder = opened(tmp_path_factory.mktemp("whole"), experiment(parts=2))
        assert run(experiment(parts=2), folder, CPU, Nobody(), lambda: False)
    return contents(folder)


def test_everything_is_stored(whole, tmp_path):
    assert list(whole) == ["part-1.json", "part-1.npz", "part-2.json", "part-2.npz"]
    (tmp_path / "four-turn").mkdir()
    for name, content in whole.items():
        (tmp_path / "four-turn" / name).write_bytes(content)
    measured, arrays = Folder(tmp_path, "four-turn").read(experiment().parts[0])
    methods, runs, points = 8, 2, 2
    assert len(measured["methods"]) == len(measured["lost"]) == len(measured["violation"]) == methods
    assert arrays["epochs"].tolist() == [2, 4]
    assert arrays["test_loss"].shape == (points, methods, runs)
    assert arrays["picture"].shape == (methods, runs, 12, 12)
    assert arrays["gradient_mean"].shape == (methods, 2, 60)
    assert {"test accuracy", "curvature", "sharpest transition"} <= measured["values"].keys()


@pytest.mark.parametrize("stop_after", [1, 2, 3, 6])
def test_stopped_and_resumed_ends_byte_for_byte_where_it_would_have(whole, tmp_path, stop_after):
    what = experiment(parts=2)
    asked = iter(range(1, 100))
    assert not run(what, opened(tmp_path, what), CPU, Nobody(), lambda: next(asked) == stop_after)
    folder, watcher = opened(tmp_path, what, resume=True), Nobody()
    assert run(what, folder, CPU, watcher, lambda: False)
    part, epoch = divmod(stop_after, 4)
    assert watcher.told[0] == ("begin", f"part {part + 1}", epoch)
    assert contents(folder) == whole


def test_a_complete_run_is_left_alone(whole, tmp_path):
    what = experiment(parts=2)
    folder, watcher = opened(tmp_path, what), Nobody()
    for name, content in whole.items():
        (folder.path / name).write_bytes(content)
    assert run(what, folder, CPU, watcher, lambda: False)
    assert watcher.told == []


def test_checkpoints_come_by_the_clock(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(runner, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(Folder, "save_checkpoint", lambda *_: saved.append(1))
    what = experiment()
    run(what, opened(tmp_path, what), CPU, Nobody(), lambda: False)
    assert len(saved) == 4


def test_a_full_disk_stops_with_what_was_saved(tmp_path, whole):
    what = experiment(parts=2)
    folder = opened(tmp_path, what)
    asked = iter(range(1, 100))
    run(what, folder, CPU, Nobody(), lambda: next(asked) == 2)
    before = sorted(os.listdir(folder.path))
    with pytest.MonkeyPatch.context() as patch:
        full_disk(patch)
        with pytest.raises(StoreError, match="No space left"):
            run(what, folder, CPU, Nobody(), lambda: False)
    assert sorted(os.listdir(folder.path)) == before
    assert run(what, folder, CPU, Nobody(), lambda: False)
    assert contents(folder) == whole


@pytest.mark.parametrize(
    ("epochs", "points", "expected"),
    [(4, 2, [2, 4]), (3, 100, [1, 2, 3]), (10, 3, [4, 7, 10]), (1, 1, [1])],
)
def test_measuring_epochs_end_with_the_last(epochs, points, expected):
    assert measuring_epochs(experiment(epochs=epochs, points=points)) == expected


@pytest.fixture
def whole_networks(tmp_path_factory, small_data):
    folder = opened(tmp_path_factory.mktemp("networks"), networks())
    assert run(networks(), folder, CPU, Nobody(), lambda: False)
    return contents(folder)


def test_networks_are_trained_one_by_one(whole_networks, tmp_path):
    assert len(whole_networks) == 2 * 2 * 4  # JSON and NPZ of two runs of four methods
    path = tmp_path / "resnet34"
    path.mkdir()
    for name, content in whole_networks.items():
        (path / name).write_bytes(content)
    job = next(job for job in jobs(networks()) if job.name == "pictures: o-CoLud, run 2")
    measured, arrays = Folder(tmp_path, "resnet34").read(job)
    assert measured["methods"] == ["o-CoLud"]
    assert arrays["epochs"].tolist() == [1, 2, 3]
    assert arrays["test_loss"].shape == arrays["fallbacks"].shape == (3, 1, 1)
    assert arrays["singular_values"].shape == (1, 1, 37, 16)
    assert len(measured["layers"]) == 37
    assert {"highest test accuracy", "lowest test loss", "fallbacks"} <= measured["values"].keys()


@pytest.mark.parametrize("stop_after", [2, 4, 7])
def test_networks_stopped_and_resumed_end_byte_for_byte(whole_networks, tmp_path, stop_after):
    what = networks()
    asked = iter(range(1, 100))
    assert not run(what, opened(tmp_path, what), CPU, Nobody(), lambda: next(asked) == stop_after)
    folder, watcher = opened(tmp_path, what, resume=True), Nobody()
    assert run(what, folder, CPU, watcher, lambda: False)
    job, epoch = divmod(stop_after, 3)
    assert watcher.told[0] == ("begin", jobs(what)[job].name, epoch)
    assert contents(folder) == whole_networks


def test_what_another_process_is_at_is_left_to_it(whole_networks, tmp_path):
    what = networks()
    folder, watcher = opened(tmp_path, what), Nobody()
    taken = jobs(what)[0]
    with Folder(tmp_path, what.name).claim(taken):
        assert run(what, folder, CPU, watcher, lambda: False)
    assert ("begin", taken.name, 0) not in watcher.told
    assert not folder.done(taken)
    assert run(what, folder, CPU, Nobody(), lambda: False)
    assert contents(folder) == whole_networks


def test_only_what_is_asked_for_is_run(small_data, tmp_path):
    what = networks()
    folder = opened(tmp_path, what)
    assert run(what, folder, CPU, Nobody(), lambda: False, "*: SGD-m, run 1")
    done = [job.name for job in jobs(what) if folder.done(job)]
    assert done == ["pictures: SGD-m, run 1", "words: SGD-m, run 1"]
    assert set(folder.run().step_ms) == set(folder.run().seconds) == set(done)


@pytest.fixture
def whole_chains(tmp_path_factory, small_data):
    folder = opened(tmp_path_factory.mktemp("chains"), posteriors())
    assert run(posteriors(), folder, CPU, Nobody(), lambda: False)
    return contents(folder)


def test_chains_store_predictions_traces_and_once_what_they_are_judged_by(whole_chains, tmp_path):
    assert len(whole_chains) == 2 * 2 * 2 + 1  # JSON and NPZ of two runs of two methods, and what they share
    path = tmp_path / "hmc-distance"
    path.mkdir()
    for name, content in whole_chains.items():
        (path / name).write_bytes(content)
    job = next(job for job in jobs(posteriors()) if job.name == "images: CoLud, run 2")
    measured, arrays = Folder(tmp_path, "hmc-distance").read(job)
    assert arrays["predictions"].shape == (1, 1, 6, 10)
    assert arrays["predictions"].dtype == np.uint8
    assert arrays["kernel_norms"].shape == (1, 1, 8, 22)
    assert arrays["total_variation"].shape == (8, 1, 1)
    assert {"total variation", "agreement", "calibration error", "weight norm"} <= measured["values"].keys()
    assert measured["values"]["agreement"][0][0] == pytest.approx(100 * arrays["agreement"][-1, 0, 0])
    shared = Folder(tmp_path, "hmc-distance").shared(job.part)
    assert shared["reference"].shape == (6, 10)
    assert shared["labels"].tolist() == list(range(6))


@pytest.mark.parametrize("stop_after", [1, 12])
def test_chains_stopped_and_resumed_end_byte_for_byte(whole_chains, tmp_path, stop_after):
    what = posteriors()
    asked = iter(range(1, 100))
    assert not run(what, opened(tmp_path, what), CPU, Nobody(), lambda: next(asked) == stop_after)
    folder = opened(tmp_path, what, resume=True)
    assert run(what, folder, CPU, Nobody(), lambda: False)
    assert contents(folder) == whole_chains
