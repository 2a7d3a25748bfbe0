"""Samples on disk: killed, truncated, foreign, full; at the disk's speed in bounded memory."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import colangevin as cl


def model_of(width=4):
    torch.manual_seed(0)
    return nn.Linear(3, width)


@pytest.fixture
def stored(tmp_path):
    """A folder with five samples."""
    samples = cl.Samples(model_of(), folder=tmp_path / "run", every=2)
    for _ in range(10):
        samples.collect()
    return tmp_path / "run"


def shard(folder, number):
    return sorted(folder.glob("*.safetensors"))[number]


def test_the_files(stored):
    names = [f"sample-{call:012d}.safetensors" for call in (2, 4, 6, 8, 10)]
    assert sorted(os.listdir(stored)) == [*names, "samples.json"]


def test_loading_goes_on(stored):
    samples = cl.Samples.load(stored, model_of())
    assert (len(samples), samples.calls, samples.every, samples.burn_in, samples.limit) == (5, 10, 2, 0, None)
    assert [samples.collect() for _ in range(2)] == [False, True]
    assert len(cl.Samples.load(stored, model_of())) == 6


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_shard_is_refused_by_name(stored, keep):
    path = shard(stored, 2)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(cl.SamplesError, match=rf"{path}: is not a whole safetensors file \(.*Remove it; the"):
        cl.Samples.load(stored, model_of())
    path.unlink()
    assert len(cl.Samples.load(stored, model_of())) == 4


def test_a_shard_that_is_truncated_later_is_refused_by_name(stored):
    samples = cl.Samples.load(stored, model_of())
    path = shard(stored, 1)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(cl.SamplesError, match=rf"{path}: is not a whole .* load the folder anew"):
        samples.predict(torch.zeros(1, 3))


def test_a_shard_of_another_run_is_refused_by_name(stored, tmp_path):
    other = cl.Samples(model_of(), folder=tmp_path / "other", every=12)
    for _ in range(12):
        other.collect()
    path = stored / shard(tmp_path / "other", 0).name
    shutil.copy(shard(tmp_path / "other", 0), path)
    with pytest.raises(cl.SamplesError, match=rf"{path}: does not belong to the samples of this folder"):
        cl.Samples.load(stored, model_of())


def test_a_foreign_file_is_refused_by_name(stored):
    path = stored / "model.safetensors"
    save_file({"weight": torch.zeros(4, 3)}, path)
    with pytest.raises(cl.SamplesError, match=rf"{path}: does not belong .*\(run None, not [0-9a-f]{{16}}\)"):
        cl.Samples.load(stored, model_of())


def test_a_renamed_shard_is_refused_by_name(stored):
    path = stored / "sample-000000000099.safetensors"
    shard(stored, 0).rename(path)
    with pytest.raises(cl.SamplesError, match=rf"{path}: does not belong"):
        cl.Samples.load(stored, model_of())


def test_a_shard_with_other_tensors_is_refused_by_name(stored):
    path = shard(stored, 0)
    tensors = load_file(path)
    run = json.loads((stored / "samples.json").read_text())["run"]
    save_file({**tensors, "bias": torch.zeros(5)}, path, {"run": run, "call": "2"})
    with pytest.raises(
        cl.SamplesError, match=rf"{path}: tensor 'bias' is F32 \(5,\) there and F32 \(4,\) in the model"
    ):
        cl.Samples.load(stored, model_of())


def test_another_model_is_refused(stored):
    with pytest.raises(cl.SamplesError, match=r"samples\.json: the samples are of another model"):
        cl.Samples.load(stored, model_of(5))
    with pytest.raises(cl.SamplesError, match=r"tensor 'bias' is F32 \(4,\) there and missing in the model"):
        cl.Samples.load(stored, nn.Linear(3, 4, bias=False))


def test_stacks_are_not_taken_for_one_model(tmp_path):
    cl.Samples(cl.Replicas(lambda: nn.Linear(2, 2), 1), folder=tmp_path / "run")

    class Stacked(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.zeros(1, 2, 2)), nn.Parameter(torch.zeros(1, 2))

    with pytest.raises(cl.SamplesError, match=r"with replicas=1, this one has replicas=0\."):
        cl.Samples.load(tmp_path / "run", Stacked())


def test_a_folder_with_samples_is_not_written_over(stored):
    before = {path.name: path.read_bytes() for path in stored.iterdir()}
    with pytest.raises(cl.SamplesError, match=rf"{stored}: has samples already\. Go on with them by Samples"):
        cl.Samples(model_of(), folder=stored)
    assert before == {path.name: path.read_bytes() for path in stored.iterdir()}


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1}'])
def test_a_broken_description_is_refused(stored, content):
    (stored / "samples.json").write_text(content)
    with pytest.raises(cl.SamplesError, match=r"samples\.json: cannot be read as the description of samples"):
        cl.Samples.load(stored, model_of())


def test_another_format_is_refused(stored):
    path = stored / "samples.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(cl.SamplesError, match=r"samples\.json: has format 2; this version reads format 1\."):
        cl.Samples.load(stored, model_of())


def test_what_the_format_cannot_hold_is_named(tmp_path):
    model = model_of()
    model.register_buffer("phase", torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(cl.SamplesError, match=r"tensor 'phase': torch\.complex64 cannot be stored"):
        cl.Samples(model, folder=tmp_path / "run")


def test_a_full_disk_loses_nothing_that_was_stored(stored, monkeypatch):
    samples = cl.Samples.load(stored, model_of())
    before = sorted(os.listdir(stored))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    samples.collect()
    with pytest.raises(cl.SamplesError, match=r"000012\.safetensors: could not be written \(No space left"):
        samples.collect()
    assert sorted(os.listdir(stored)) == before
    assert len(samples) == 5


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(cl.SamplesError, match=r"file/run: cannot be made \(Not a directory\)"):
        cl.Samples(model_of(), folder=tmp_path / "file" / "run")


def test_a_missing_library_is_asked_for_by_its_extra(tmp_path, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("safetensors")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [])
    message = r'on disk needs safetensors, which is not installed\. Run: pip install "colangevin\[sampling\]"'
    with pytest.raises(ModuleNotFoundError, match=message):
        cl.Samples(model_of(), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


COLLECTOR = """
import sys, torch
from torch import nn
import colangevin as cl
torch.manual_seed(0)
model = nn.Linear(300, 1000)
samples = cl.Samples(model, folder=sys.argv[1])
while True:
    with torch.no_grad():
        model.weight.fill_(samples.calls + 1)
    samples.collect()
"""


@pytest.mark.parametrize("count", [1, 7])
def test_a_kill_loses_at_most_the_sample_being_written(tmp_path, count):
    folder = tmp_path / "run"
    source = str(Path(cl.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    process = subprocess.Popen([sys.executable, "-c", COLLECTOR, str(folder)], env=environment)
    try:
        deadline = time.monotonic() + 60
        while len(seen := list(folder.glob("*.safetensors"))) < count:
            assert time.monotonic() < deadline, "the collector wrote nothing"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    samples = cl.Samples.load(folder, nn.Linear(300, 1000))
    assert len(samples) >= len(seen)
    for call, sample in enumerate(samples, start=1):  # each is whole, and none is missing between
        assert bool((sample["weight"] == call).all())
    assert not list(folder.glob(".*"))
    samples.collect()
    assert len(cl.Samples.load(folder, nn.Linear(300, 1000))) == len(samples)


def test_a_thinning_that_was_killed_is_finished(tmp_path, monkeypatch):
    model = model_of()
    folder = tmp_path / "run"
    samples = cl.Samples(model, folder=folder, limit=6 * 16 * 4)
    for _ in range(6):
        samples.collect()
    remove = Path.unlink
    left = [1]

    def dying(path, missing_ok=False):
        if path.suffix == ".safetensors":
            if not left:
                raise KeyboardInterrupt
            left.pop()
        remove(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", dying)
        with pytest.raises(KeyboardInterrupt):
            samples.collect()
    assert len(list(folder.glob("*.safetensors"))) == 5
    samples = cl.Samples.load(folder, model)
    assert (len(samples), samples.every) == (3, 2)


def fashion_mnist_perceptron():
    return nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10))


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def sync(path, content):
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def stream(folder, count):
    """Seconds to store so many samples and plain files of their size, and how the peak of memory rose."""
    model = fashion_mnist_perceptron()
    samples = cl.Samples(model, folder=folder / "run")
    content = os.urandom(sum(4 * parameter.numel() for parameter in model.parameters()))
    seconds = {"samples": 0.0, "plain": 0.0}
    before = 0
    for i in range(count):
        for name in seconds:  # in turn: what else the disk does, it does to both
            start = time.perf_counter()
            if name == "samples":
                samples.collect()
            else:
                sync(folder / f"plain-{i}", content)
            seconds[name] += time.perf_counter() - start
        if i == 2:
            before = peak_memory()
    assert len(samples) == count
    return seconds, peak_memory() - before, count * len(content) / 1e6


def test_the_memory_of_streaming_does_not_grow(tmp_path):
    _, growth, _ = stream(tmp_path, 40)  # 127 MB
    assert growth < 16e6


@pytest.mark.slow
def test_a_thousand_samples_stream_at_the_speed_of_the_disk(tmp_path, capsys):
    """Beside the same bytes written and synced as plain files: at most a half longer."""
    seconds, growth, size = stream(tmp_path, 1000)
    shutil.rmtree(tmp_path)  # 6 GB
    rates = {name: size / each for name, each in seconds.items()}
    with capsys.disabled():
        print(f"\n1,000 samples: {rates['samples']:.0f} MB/s; plain files: {rates['plain']:.0f} MB/s")
    assert growth < 16e6
    assert seconds["samples"] < 1.5 * seconds["plain"]
