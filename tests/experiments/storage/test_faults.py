"""Trials of the store: disks that are full, processes that are killed, several that work in one folder."""

import os
import resource
import signal
import threading

import numpy as np
import pytest
import torch

from colangevin.experiments.catalogue.jobs import jobs
from colangevin.experiments.storage import folder as folder_module
from colangevin.experiments.storage.disk import write_json
from colangevin.experiments.storage.folder import Folder
from tests.experiments.command_line import TINY, contents, finish, start, wait_for
from tests.experiments.tiny import experiment

CPU = torch.device("cpu")
WHAT = experiment(parts=2)


def small_files():
    """No file beyond this size can be written, and what fits of it is: as on a disk that fills up."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))


def test_a_disk_that_fills_up_is_named_and_nothing_is_lost(whole, tmp_path):
    status, text = finish(start("run", "fig4", "--out", tmp_path, preexec_fn=small_files))
    assert status == 1, text
    assert "four-turn/part-1.pt (File too large). What was there is unchanged. Make room" in " ".join(
        text.split()
    )
    assert not list(tmp_path.rglob("*.part"))
    status, text = finish(start("run", "fig4", "--out", tmp_path, "--resume"))
    assert status == 0, text
    assert contents(tmp_path / "four-turn") == whole


def test_two_processes_share_the_jobs_of_one_folder(whole, tmp_path):
    both = [start("run", "fig4", "--out", tmp_path, "--resume") for _ in range(2)]
    for status, text in map(finish, both):
        assert status == 0, text
        assert "damaged" not in text
    assert contents(tmp_path / "four-turn") == whole
    assert Folder(tmp_path, "four-turn").run().seconds.keys() == {"part 1", "part 2"}


# Killed as a file of that name takes its place, before or after.
KILLED = TINY.replace(
    "main()\n",
    """
import os
replace, (name, when) = os.replace, sys.argv.pop().split(":")
def replaced(source, target):
    mine = str(target).endswith(name)
    if mine and when == "before":
        os.kill(os.getpid(), 9)
    replace(source, target)
    if mine:
        os.kill(os.getpid(), 9)
os.replace = replaced
main()
""",
)


@pytest.mark.parametrize(
    "moment",
    [
        "part-1.json:before",
        *(
            pytest.param(moment, marks=pytest.mark.slow)
            for moment in (
                *("run.json:before", "run.json:after", "part-1.npz:before", "part-1.npz:after"),
                *("part-1.pt:before", "part-1.pt:after", "part-1.json:after"),
            )
        ),
    ],
)
def test_killed_at_every_kind_of_write_it_ends_with_the_same_bytes(whole, tmp_path, moment):
    process = start("run", "fig4", "--out", tmp_path, moment, script=KILLED)
    status, text = finish(process)
    assert status == -signal.SIGKILL, text
    status, text = finish(start("run", "fig4", "--out", tmp_path, "--resume"))
    assert status == 0, text
    assert "damaged" not in text
    assert contents(tmp_path / "four-turn") == whole
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.slow
def test_of_two_processes_one_is_killed_and_the_other_leaves_its_job(whole, tmp_path):
    first = start("run", "fig4", "--out", tmp_path)
    wait_for((tmp_path / "four-turn" / "part-1.pt").exists, first)
    second = start("run", "fig4", "--out", tmp_path, "--resume")
    wait_for((tmp_path / "four-turn" / "part-2.pt").exists, second)
    first.kill()
    finish(first)
    assert finish(second)[0] == 0
    status, text = finish(start("run", "fig4", "--out", tmp_path, "--resume"))
    assert status == 0, text
    assert contents(tmp_path / "four-turn") == whole


def test_who_reads_while_another_writes_sees_whole_files(tmp_path):
    folder, job = Folder(tmp_path, WHAT.name), jobs(WHAT)[0]
    folder.open(WHAT, CPU, ["colangevin"], resume=False)
    folder.finish(job, {"values": 0}, {"curve": np.zeros(1000)}, seconds=1)

    def write():
        for number in range(50):
            folder.finish(job, {"values": number}, {"curve": np.full(1000, number)}, seconds=1)

    writer = threading.Thread(target=write)
    writer.start()
    reader = Folder(tmp_path, WHAT.name)
    reads = 0
    while writer.is_alive() or not reads:
        measured, arrays = reader.read(job)
        assert np.ptp(arrays["curve"]) == 0
        assert reader.done(job)
        assert reader.run().seconds == {"part 1": 1}
        reads += 1
    writer.join()
    assert measured["values"] <= 49


def test_a_job_whose_json_could_not_be_written_is_not_done(tmp_path, monkeypatch):
    folder, job = Folder(tmp_path, WHAT.name), jobs(WHAT)[0]
    folder.open(WHAT, CPU, ["colangevin"], resume=False)
    folder.save_checkpoint(job, {"x": torch.arange(3)})

    def fail(path, content):
        if path.name == "part-1.json":
            raise KeyboardInterrupt
        write_json(path, content)

    monkeypatch.setattr(folder_module, "write_json", fail)
    with pytest.raises(KeyboardInterrupt):
        folder.finish(job, {}, {"curve": np.zeros(4)}, seconds=1)
    assert not folder.stored(job)
    assert folder.damage(job) is None
    assert folder.load_checkpoint(job)["x"].tolist() == [0, 1, 2]
    assert sorted(os.listdir(folder.path)) == ["part-1.npz", "part-1.pt", "run.json"]
