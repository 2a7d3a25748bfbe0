import dataclasses
import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import colangevin
from colangevin.experiments.storage.disk import StoreError, write_atomically
from colangevin.experiments.storage.folder import Folder
from tests.experiments.tiny import experiment

CPU = torch.device("cpu")
COMMAND = ["colangevin", "run", "fig4"]


def full_disk(monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)


def opened(path, **changes):
    folder = Folder(path, "four-turn")
    folder.open(experiment(**changes), CPU, COMMAND, resume=False)
    return folder


def edit(folder, **changes):
    path = folder.path / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_full_disk_loses_nothing_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    full_disk(monkeypatch)
    with pytest.raises(
        StoreError, match=r"Could not write .*file \(No space left on device\). What was there"
    ):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


KILLED = """
import os, pathlib, sys
from colangevin.experiments.storage.disk import write_atomically
os.fsync = lambda _: os._exit(9)
write_atomically(pathlib.Path(sys.argv[1]), b"new")
"""


def test_a_kill_half_way_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False).returncode == 9
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.glob(".file.*.part"))) == 1
    write_atomically(path, b"newer")
    assert path.read_bytes() == b"newer"


def test_a_folder_that_cannot_be_made_is_explained(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StoreError, match=r"Could not make the folder .*out/four-turn .*--out"):
        opened(tmp_path / "out")


def test_what_was_run_is_written_down(tmp_path):
    run = opened(tmp_path).run()
    assert run.command == "colangevin run fig4"
    assert run.version == colangevin.__version__
    assert run.torch == torch.__version__
    assert run.experiment["seed"] == 0
    assert run.experiment["parts"][0]["methods"][0]["name"] == "SGD"
    assert {"python", "numpy", "platform"} <= run.machine.keys()


def test_results_are_not_overwritten(tmp_path):
    opened(tmp_path)
    with pytest.raises(StoreError, match=r"has results already. Add --resume to go on with them, or choose"):
        opened(tmp_path)


def test_the_same_again_is_resumed_and_what_a_kill_left_is_swept_up(tmp_path):
    folder = opened(tmp_path)
    (folder.path / ".part-1.pt.part").write_bytes(b"half")
    (folder.path / ".part-2.pt.part").write_bytes(b"another process is at it")
    folder.open(experiment(), CPU, COMMAND, resume=True)
    with folder.claim(experiment().parts[0]) as mine:
        assert mine
        assert sorted(os.listdir(folder.path)) == [".part-1.lock", ".part-2.pt.part", "run.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "0.0.1"}, r"version: '0.0.1' there, "),
        ({"torch": "1.0"}, r"torch: '1.0' there, "),
        ({"commit": "abc"}, r"commit: 'abc' there, "),
        ({"device": "NVIDIA H200"}, r"device: 'NVIDIA H200' there, 'cpu' now"),
        ({"threads": 999}, r"threads: 999 there, "),
        ({"format": 99}, r"run.json has format 99; colangevin .* reads format 1"),
    ],
)
def test_results_of_other_software_are_refused(tmp_path, change, message):
    folder = opened(tmp_path)
    edit(folder, **change)
    with pytest.raises(StoreError, match=message):
        folder.open(experiment(), CPU, COMMAND, resume=True)


def test_results_of_other_settings_are_refused(tmp_path):
    folder = opened(tmp_path, epochs=4)
    with pytest.raises(
        StoreError, match=r"something else(.|\n)*experiment: epochs: 4 there, 5 now(.|\n)*--out"
    ):
        folder.open(experiment(epochs=5), CPU, COMMAND, resume=True)
    warmer = dataclasses.replace(experiment().parts[0].methods[0], temperature=1.0)
    part = dataclasses.replace(experiment().parts[0], methods=(warmer,))
    other = dataclasses.replace(experiment(), parts=(part,), claims=(), reported=())
    with pytest.raises(StoreError, match="experiment: parts:"):
        folder.open(other, CPU, COMMAND, resume=True)


def test_a_broken_file_is_named(tmp_path):
    folder = opened(tmp_path)
    (folder.path / "run.json").write_text("{")
    with pytest.raises(StoreError, match=r"run.json cannot be read as results"):
        folder.run()


def test_a_part_comes_back_and_its_checkpoint_goes(tmp_path):
    folder = opened(tmp_path)
    part = experiment().parts[0]
    assert folder.load_checkpoint(part) is None
    folder.save_checkpoint(part, {"x": torch.arange(3)})
    assert folder.load_checkpoint(part)["x"].tolist() == [0, 1, 2]
    assert not folder.done(part)
    folder.finish(part, {"values": 1}, {"curve": np.arange(4)}, seconds=1.25)
    assert folder.done(part)
    measured, arrays = folder.read(part)
    assert measured == {"values": 1}
    assert arrays["curve"].tolist() == [0, 1, 2, 3]
    assert folder.run().seconds == {"part 1": 1.2}
    assert sorted(os.listdir(folder.path)) == ["part-1.json", "part-1.npz", "run.json"]


def test_a_full_disk_at_the_end_keeps_the_checkpoint(tmp_path, monkeypatch):
    folder = opened(tmp_path)
    part = experiment().parts[0]
    folder.save_checkpoint(part, {"x": torch.arange(3)})
    full_disk(monkeypatch)
    with pytest.raises(StoreError):
        folder.finish(part, {}, {"curve": np.arange(4)}, seconds=1)
    with pytest.raises(StoreError):
        folder.save_checkpoint(part, {"x": torch.arange(4)})
    assert not folder.done(part)
    assert folder.load_checkpoint(part)["x"].tolist() == [0, 1, 2]


def test_a_job_belongs_to_one_process_at_a_time(tmp_path):
    folder, other = opened(tmp_path), Folder(tmp_path, "four-turn")
    part = experiment().parts[0]
    with folder.claim(part) as mine:
        assert mine
        with other.claim(part) as theirs:
            assert not theirs
    with other.claim(part) as theirs:
        assert theirs


HOLDS = """
import pathlib, sys, time
from colangevin.experiments.storage.folder import Folder
from tests.experiments.tiny import experiment
with Folder(pathlib.Path(sys.argv[1]), "four-turn").claim(experiment().parts[0]):
    print("mine", flush=True)
    time.sleep(100)
"""


def test_the_job_of_a_process_that_was_killed_can_be_had(tmp_path):
    folder = opened(tmp_path)
    part = experiment().parts[0]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", ".", *sys.path])}
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout.readline() == "mine\n"
        with folder.claim(part) as mine:
            assert not mine
        process.kill()
        process.wait()
    with folder.claim(part) as mine:
        assert mine


def test_the_lock_goes_when_the_job_is_done(tmp_path):
    folder = opened(tmp_path)
    part = experiment().parts[0]
    with folder.claim(part):
        folder.finish(part, {}, {"curve": np.arange(4)}, seconds=1, step_ms=2.5)
    assert sorted(os.listdir(folder.path)) == ["part-1.json", "part-1.npz", "run.json"]
    assert folder.run().step_ms == {"part 1": 2.5}


def test_a_folder_that_others_have_opened_is_resumed(tmp_path):
    opened(tmp_path)
    other = Folder(tmp_path, "four-turn")
    other.open(experiment(), CPU, COMMAND, resume=True)
    fresh = Folder(tmp_path / "fresh", "four-turn")
    fresh.open(experiment(), CPU, COMMAND, resume=True)
    assert fresh.started


def test_what_jobs_share_is_written_whole_and_read_back(tmp_path):
    folder, part = opened(tmp_path), experiment().parts[0]
    left = folder.path / ".part-1.shared.npz.0123abcd.part"  # of a kill
    left.write_bytes(b"half")
    arrays = {"labels": np.arange(6, dtype=np.uint8)}
    for _ in range(2):
        folder.share(part, arrays)
    assert folder.shared(part)["labels"].tolist() == list(range(6))
    assert sorted(path.name for path in folder.path.iterdir() if "shared" in path.name) == [
        "part-1.shared.npz"
    ]
    (folder.path / "part-1.shared.npz").write_bytes(b"damaged")
    with pytest.raises(StoreError, match=r"part-1.shared.npz is damaged: .*Put it back, or move"):
        folder.shared(part)
