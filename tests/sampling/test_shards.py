"""Samples on disk: truncated, foreign, full; at the disk's speed in bounded memory."""

import errno
import json
import os
import resource
import shutil
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
    assert sorted(os.listdir(stored)) == [".lock", *names, "samples.json"]


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


def shards_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b'{"format": 1}', b'{"format": 1, "run": \xff}', b"[" * 100_000, b"PK\x03\x04"],
)
def test_a_broken_description_is_refused(stored, content):
    before = shards_of(stored)
    (stored / "samples.json").write_bytes(content)
    message = (
        r"samples\.json: cannot be read as the description of samples \(.* are intact: put the description"
    )
    with pytest.raises(cl.SamplesError, match=message):
        cl.Samples.load(stored, model_of())
    assert shards_of(stored) == before


def test_a_description_that_is_cut_anywhere_is_refused(stored):
    path = stored / "samples.json"
    content = path.read_bytes()
    for length in range(0, len(content) - 2, 7):  # without the line feed at the end it is whole
        path.write_bytes(content[:length])
        with pytest.raises(cl.SamplesError, match=r"samples\.json: cannot be read as the description"):
            cl.Samples.load(stored, model_of())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"every": 2', '"every": 0', "every=0"),
        ('"every": 2', '"every": "2"', "every='2'"),
        ('"every": 2', '"always": 2', "KeyError.'every'"),
        ('"burn_in": 0', '"burn_in": -1', "burn_in=-1"),
        ('"limit": null', '"limit": [1]', r"limit=\[1\]"),
        ('"replicas": 0', '"replicas": true', "replicas=True"),
        ('"F32"', "32", "another model: tensor 'weight' is 32"),
        ('"tensors": {', '"tensors": {"x": 1, ', "cannot unpack"),
    ],
)
def test_a_description_with_something_impossible_is_refused(stored, old, new, message):
    path = stored / "samples.json"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(cl.SamplesError, match=rf"samples\.json: .*{message}"):
        cl.Samples.load(stored, model_of())


def test_a_folder_without_samples_is_named(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(
            cl.SamplesError, match=rf"{folder}: has no samples\.json, so no samples were coll"
        ):
            cl.Samples.load(folder, model_of())
    assert os.listdir(tmp_path) == []


def pipe(path):
    os.mkfifo(path)


def dangling(path):
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [Path.mkdir, pipe, dangling])
@pytest.mark.parametrize("name", ["sample-000000000099.safetensors", "*.safetensors"])
def test_what_is_no_file_is_refused_by_name(stored, make, name):
    make(stored / name)
    with pytest.raises(
        cl.SamplesError, match=r"\.safetensors: is not a whole safetensors file \(not a file\)"
    ):
        cl.Samples.load(stored, model_of())


@pytest.mark.parametrize("call", ["2x", "-2", "", "\u0662", "9" * 5000])
def test_a_shard_whose_metadata_name_another_call_is_refused_by_name(stored, call):
    path = shard(stored, 0)
    run = json.loads((stored / "samples.json").read_text())["run"]
    save_file(load_file(path), path, {"run": run, "call": call})
    with pytest.raises(cl.SamplesError, match=rf"{path}: does not belong to the samples of this folder"):
        cl.Samples.load(stored, model_of())


def test_a_damaged_file_of_somebody_else_is_not_to_be_removed(stored):
    path = stored / "model.safetensors"
    path.write_bytes(b"half")
    with pytest.raises(cl.SamplesError, match=r"not a whole safetensors file \(.*\)\. Move it elsewhere\."):
        cl.Samples.load(stored, model_of())


@pytest.mark.parametrize("name", ["a b", "*[a]?", "ünï", "new\nline", "-rf", "'quote\"", "~", "x" * 255])
def test_hostile_names_of_folders(tmp_path, name):
    samples = cl.Samples(model_of(), folder=tmp_path / name)
    samples.collect()
    assert os.listdir(tmp_path) == [name]
    assert len(cl.Samples.load(tmp_path / name, model_of())) == 1


def test_a_folder_that_safetensors_could_not_read_is_refused_before_anything_is_written(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    with pytest.raises(
        cl.SamplesError, match=r"folder='.*udcff': safetensors reads no files whose path is not"
    ):
        cl.Samples(model_of(), folder=folder)
    assert os.listdir(tmp_path) == []


def test_a_tensor_whose_name_would_spoil_its_file_is_refused(tmp_path):
    model = model_of()
    model.register_buffer("__metadata__", torch.zeros(2))
    with pytest.raises(
        cl.SamplesError, match=r"tensor '__metadata__': safetensors keeps this name to itself"
    ):
        cl.Samples(model, folder=tmp_path / "run")


def test_tensors_that_share_memory_are_stored(tmp_path):
    model = model_of()
    model.register_buffer("part", model.weight.detach()[:2])
    samples = cl.Samples(model, folder=tmp_path / "run")
    samples.collect()
    assert torch.equal(samples[0]["part"], model.weight[:2])


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


class FullDisk:
    """A disk that takes so many more files."""

    def __init__(self, monkeypatch, files=0):
        self.files = files
        self.fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, file):
        if not self.files:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.files -= 1
        self.fsync(file)


def test_a_full_disk_loses_nothing_and_the_call_may_be_repeated(stored, monkeypatch):
    samples = cl.Samples.load(stored, model_of())
    before = sorted(os.listdir(stored))
    samples.collect()
    with monkeypatch.context() as patch:
        FullDisk(patch)
        for _ in range(2):
            with pytest.raises(
                cl.SamplesError, match=r"12\.safetensors: could not be written \(No space left"
            ):
                samples.collect()
    assert sorted(os.listdir(stored)) == before
    assert (len(samples), samples.calls) == (5, 11)
    assert samples.collect()
    assert len(cl.Samples.load(stored, model_of())) == 6


@pytest.mark.parametrize("files", [0, 1])
def test_a_disk_that_is_full_when_samples_are_thinned_loses_nothing(tmp_path, monkeypatch, files):
    samples = cl.Samples(model_of(), folder=tmp_path / "run", limit=4 * 16 * 4, burn_in=1)
    for _ in range(5):
        samples.collect()
    with monkeypatch.context() as patch:
        FullDisk(patch, files)
        with pytest.raises(cl.SamplesError, match="could not be written"):
            [samples.collect() for _ in range(2)]
        assert len(cl.Samples.load(tmp_path / "run", model_of())) == len(samples) == 4 // (files + 1)
    while samples.calls < 9:
        samples.collect()
    assert (samples.every, samples.state_dict()["taken"]) == (2, [3, 5, 7, 9])


def test_a_disk_that_is_full_when_a_run_goes_back_changes_nothing(stored, monkeypatch):
    samples = cl.Samples.load(stored, model_of())
    with monkeypatch.context() as patch:
        FullDisk(patch)
        with pytest.raises(cl.SamplesError, match=r"samples\.json: could not be written \(No space left"):
            samples.load_state_dict({"calls": 4, "every": 4, "taken": [4]})
    assert (len(samples), samples.calls, samples.every) == (5, 10, 2)
    assert len(cl.Samples.load(stored, model_of())) == 5


def test_a_sample_that_cannot_be_removed_is_named(stored, monkeypatch):
    samples = cl.Samples.load(stored, model_of())

    def unlink(path, missing_ok=False):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(cl.SamplesError, match=r"10\.safetensors: could not be removed \(Permission denied\)"):
        samples.load_state_dict({"calls": 8, "every": 2, "taken": [2, 4, 6, 8]})


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
