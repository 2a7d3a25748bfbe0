"""One folder of samples and several who use it: who writes, who reads, and what either sees of the other."""

import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin import locks
from colangevin.sampling.shards import Shards

SIZE = 4 * 5  # bytes of a sample
SOURCE = str(Path(cl.__file__).parents[1])


def model_of():
    return nn.Linear(4, 1)


def collect(samples, calls):
    """Collect weights that say which call took them."""
    for _ in range(calls):
        with torch.no_grad():
            samples.model.weight.fill_(samples.calls + 1)
        samples.collect()


def taken(samples):
    """The calls that took the samples, by what is in the files."""
    return [int(sample["weight"][0, 0]) for sample in samples]


def begin(folder, calls, **options):
    samples = cl.Samples(model_of(), folder=folder, **options)
    collect(samples, calls)
    return samples


def load(folder):
    return cl.Samples.load(folder, model_of())


def contents(folder):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def settings(folder):
    return json.loads((folder / "samples.json").read_text())["settings"]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


# ---- reading ---------------------------------------------------------------------------------------


def killed_while_thinning(folder):
    """Seven samples of which the description gives up the odd ones, and two that were being written."""
    begin(folder, 7)
    description = folder / "samples.json"
    description.write_text(description.read_text().replace('"every": 1', '"every": 2'))
    for name in (".sample-000000000008.safetensors.0a1b2c3d.part", ".samples.json.0a1b2c3d.part"):
        (folder / name).write_bytes(b"half")


def test_reading_changes_nothing(folder):
    killed_while_thinning(folder)
    before = contents(folder)
    samples = load(folder)
    assert (len(samples), samples.calls, samples.every) == (3, 6, 2)
    assert taken(samples) == [2, 4, 6]
    samples.predict(torch.zeros(1, 4))
    samples.draws("weight")
    samples.state_dict()
    assert contents(folder) == before


@pytest.mark.parametrize(
    "write", [cl.Samples.collect, lambda samples: samples.load_state_dict(samples.state_dict())]
)
def test_the_first_to_write_sweeps_up_what_a_kill_left(folder, write):
    killed_while_thinning(folder)
    foreign = folder / ".film.mkv.part"
    foreign.write_bytes(b"somebody else's")
    write(load(folder))
    shards = [f"sample-{call:012d}.safetensors" for call in (2, 4, 6)]
    assert sorted(os.listdir(folder)) == [".film.mkv.part", ".lock", *shards, "samples.json"]


def test_a_writer_goes_on_while_others_read(folder):
    writer = begin(folder, 3)
    reader = load(folder)
    collect(writer, 2)
    assert taken(reader) == [1, 2, 3]
    assert taken(load(folder)) == taken(writer) == [1, 2, 3, 4, 5]


def test_samples_that_are_thinned_out_under_a_reader_are_named(folder):
    writer = begin(folder, 4, limit=4 * SIZE)
    reader = load(folder)
    collect(writer, 2)
    path = folder / "sample-000000000001.safetensors"
    with pytest.raises(cl.SamplesError, match=rf"{path}: is gone since .* thinned .* Load the folder anew"):
        reader.predict(torch.zeros(1, 4))
    assert len(reader) == 4
    assert taken(load(folder)) == [2, 4, 6]


@pytest.mark.parametrize("moment", range(4))
def test_who_loads_while_a_writer_thins_sees_one_state_of_the_folder(folder, monkeypatch, moment):
    """Whichever shard is being looked at then: those before it were there, those after it are gone."""
    writer = begin(folder, 4, limit=4 * SIZE)
    looked = []
    examine = Shards._examine

    def slowly(self, path):
        if len(looked) == moment:
            collect(writer, 2)
        looked.append(path)
        return examine(self, path)

    monkeypatch.setattr(Shards, "_examine", slowly)
    samples = load(folder)
    assert (samples.every, taken(samples)) == (2, [2, 4, 6])


def test_who_loads_while_a_writer_adds_sees_no_gap(folder, monkeypatch):
    """A list of the folder may show the later of two files that come meanwhile, and not the earlier."""
    writer = begin(folder, 3)
    paths = Shards._paths

    def meanwhile(self):
        collect(writer, 2)
        found = sorted(paths(self))
        return [*found[:-2], found[-1]]

    monkeypatch.setattr(Shards, "_paths", meanwhile)
    assert taken(load(folder)) == [1, 2, 3, 4, 5]


# ---- writing ---------------------------------------------------------------------------------------

# Waits for a word and forks: to import torch again for every collector would take seconds. One child obeys
# line by line, one collects into a folder, or goes on, until it is killed.
COLLECTORS = """
import os, sys, torch
from torch import nn
import colangevin as cl

torch.set_num_threads(1)
model = nn.Linear(4, 1)

def answer(word):
    print(word, flush=True)

def collect(samples):
    with torch.no_grad():
        model.weight.fill_(samples.calls + 1)
    samples.collect()

def obey():
    for line in sys.stdin:
        what, folder = line.split()
        try:
            if what == "begin":
                samples = cl.Samples(model, folder=folder)
            elif what == "load":
                samples = cl.Samples.load(folder, model)
            else:
                collect(samples)
            answer("done")
        except cl.SamplesError as error:
            answer(error)

def run(folder):
    if os.path.exists(folder + "/samples.json"):
        samples = cl.Samples.load(folder, model)
    else:
        samples = cl.Samples(model, folder=folder, limit=20 * 40)
    answer(os.getpid())
    while True:
        collect(samples)

answer("ready")
for line in sys.stdin:
    what, *folder = line.split()
    child = os.fork()
    if child == 0:
        run(*folder) if folder else (answer(os.getpid()), obey())
    os.waitpid(child, 0)
    answer("gone")
"""


@pytest.fixture(scope="module")
def collectors():
    command = [sys.executable, "-W", "ignore", "-c", COLLECTORS]
    environment = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def ask(process, *words):
    process.stdin.write(" ".join(map(str, words)) + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


@contextmanager
def collector(collectors, *words):
    """A child that is killed in the end."""
    pid = int(ask(collectors, *words))
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        assert collectors.stdout.readline() == "gone\n"


def test_only_one_process_collects(folder, tmp_path, collectors):
    begin(folder, 2)
    mine = load(folder)
    fresh = tmp_path / "fresh"
    with collector(collectors, "obey"):
        # theirs is not in the way of who reads, and is not disturbed by it
        assert [ask(collectors, what, folder) for what in ("load", "collect")] == ["done", "done"]
        before = contents(folder)
        busy = (
            rf"{folder}: another process collects into it\. Wait until .* To read them meanwhile, call Sampl"
        )
        for write in (mine.collect, lambda: mine.load_state_dict(mine.state_dict())):
            with pytest.raises(cl.SamplesError, match=busy):
                write()
        assert (mine.calls, taken(mine)) == (2, [1, 2])
        assert contents(folder) == before
        assert taken(load(folder)) == [1, 2, 3]
        assert ask(collectors, "collect", folder) == "done"

        # a folder that is just being begun
        assert ask(collectors, "begin", fresh) == "done"
        (fresh / "samples.json").unlink()
        with pytest.raises(cl.SamplesError, match=rf"{fresh}: another process collects into it"):
            cl.Samples(model_of(), folder=fresh)

    # what was loaded before they collected is out of date when they have ended
    with pytest.raises(cl.SamplesError, match=rf"{folder}: has changed since it was loaded.* Load it anew"):
        mine.collect()
    mine = load(folder)
    collect(mine, 1)
    assert taken(load(folder)) == [1, 2, 3, 4, 5]


def test_an_unreachable_collector_of_the_same_process_does_not_block_its_successor(folder):
    first = begin(folder, 2)
    second = load(folder)
    collect(second, 1)
    with pytest.raises(
        cl.SamplesError, match="has changed since it was loaded: something else has collected"
    ):
        first.collect()
    collect(second, 1)
    assert taken(load(folder)) == [1, 2, 3, 4]


def test_a_copy_and_its_original_do_not_overwrite_each_other(folder):
    first = begin(folder, 2)
    second = copy.deepcopy(first)
    collect(second, 1)
    with pytest.raises(cl.SamplesError, match="has changed since it was loaded"):
        first.collect()


def test_who_begins_anew_in_a_removed_folder_is_not_disturbed(folder):
    first = begin(folder, 2)
    shutil.rmtree(folder)
    second = begin(folder, 1)
    with pytest.raises(cl.SamplesError, match="has changed since it was loaded"):
        first.collect()
    collect(second, 1)
    assert taken(load(folder)) == [1, 2]


def test_a_removed_folder_is_named(folder):
    samples = begin(folder, 2)
    shutil.rmtree(folder)
    with pytest.raises(cl.SamplesError, match=rf"{folder}/\.lock: could not be written \(No such file"):
        samples.collect()


def test_a_planted_lock_is_not_followed(folder, tmp_path):
    folder.mkdir()
    (folder / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(cl.SamplesError, match=rf"{folder}/\.lock: could not be written \(Too many levels of"):
        cl.Samples(model_of(), folder=folder)
    assert not (tmp_path / "victim").exists()


def test_without_locks_samples_are_collected_with_a_warning(folder, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)  # as on Windows
    with pytest.warns(UserWarning, match=rf"See to it that only one process writes into {folder}\."):
        begin(folder, 2)
    samples = load(folder)
    with pytest.warns(UserWarning, match="there are no locks here"):
        collect(samples, 1)
    assert taken(load(folder)) == [1, 2, 3]


# ---- going back ------------------------------------------------------------------------------------


def test_going_back_is_remembered(folder):
    samples = begin(folder, 3, limit=4 * SIZE)
    state = samples.state_dict()
    collect(samples, 3)  # thins
    samples = load(folder)
    samples.load_state_dict(state)
    assert settings(folder)["every"] == samples.every == 2
    collect(samples, 1)
    assert taken(load(folder)) == taken(samples) == [2, 4]


def test_a_coarser_state_is_remembered(folder):
    samples = begin(folder, 4)
    samples.load_state_dict({"calls": 3, "every": 2, "taken": [2]})
    assert (settings(folder)["every"], taken(load(folder))) == (2, [2])


@pytest.mark.parametrize(
    ("checkpoint", "killed", "end"), [(3, 4, 9), (3, 9, 6), (3, 9, 25), (5, 14, 11), (9, 14, 15), (9, 25, 21)]
)
def test_a_resumed_run_thins_as_the_uninterrupted_one(tmp_path, checkpoint, killed, end):
    whole = begin(tmp_path / "whole", end, limit=4 * SIZE)
    samples = begin(tmp_path / "run", checkpoint, limit=4 * SIZE)
    state = samples.state_dict()
    collect(samples, killed - checkpoint)
    samples = load(tmp_path / "run")
    samples.load_state_dict(state)
    collect(samples, end - checkpoint)
    assert (samples.every, taken(samples)) == (whole.every, taken(whole))
    assert settings(tmp_path / "run") == settings(tmp_path / "whole")


# ---- killed ----------------------------------------------------------------------------------------


def kill_again_and_again(collectors, folder, kills):
    """While this process reads, too: every state that it sees is whole and evenly spread."""
    chance = random.Random(0)
    last = 0
    for _ in range(kills):
        with collector(collectors, "run", folder):
            until = time.monotonic() + chance.uniform(0.0, 0.3)
            while time.monotonic() < until:
                samples = load(folder)
                calls = samples.state_dict()["taken"]
                assert calls == [samples.every * (i + 1) for i in range(len(calls))]
        samples = load(folder)
        assert samples.calls >= last  # no sample is ever lost
        last = samples.calls
    return last


def test_a_collector_that_is_killed_again_and_again_loses_nothing(folder, collectors):
    last = kill_again_and_again(collectors, folder, 6)
    samples = load(folder)
    collect(samples, 1)
    assert samples.calls == last + 1
    assert taken(samples) == samples.state_dict()["taken"]
    files = {f"sample-{call:012d}.safetensors" for call in taken(samples)}
    assert set(os.listdir(folder)) == {".lock", "samples.json", *files}


@pytest.mark.slow
def test_a_collector_that_is_killed_a_hundred_times_loses_nothing(folder, collectors):
    kill_again_and_again(collectors, folder, 100)
