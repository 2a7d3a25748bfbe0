"""The files of samples on disk: which are read, and how each that does not belong is refused."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import colangevin as cl
from tests.sampling.small_model import model_of


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


def test_what_the_format_cannot_hold_is_named(tmp_path):
    model = model_of()
    model.register_buffer("phase", torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(cl.SamplesError, match=r"tensor 'phase': torch\.complex64 cannot be stored"):
        cl.Samples(model, folder=tmp_path / "run")


def test_a_missing_library_is_asked_for_by_its_extra(tmp_path, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("safetensors")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [])
    message = r'on disk needs safetensors, which is not installed\. Run: pip install "colangevin\[sampling\]"'
    with pytest.raises(ModuleNotFoundError, match=message):
        cl.Samples(model_of(), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
