"""A disk that is full or read-only, and a process killed half-way: no sample is lost."""

import errno
import os
from pathlib import Path

import pytest

import colangevin as cl
from tests.sampling.small_model import model_of


class FullDisk:
    """``os.fsync`` of a disk that is full after a number of files."""

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
