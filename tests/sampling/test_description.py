"""``samples.json``, which describes the samples of a folder: broken, missing, impossible."""

import os

import pytest

import colangevin as cl
from tests.sampling.small_model import model_of


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
    for length in range(0, len(content) - 2, 7):  # without its final line feed the file is still whole
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


def test_another_format_is_refused(stored):
    path = stored / "samples.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(cl.SamplesError, match=r"samples\.json: has format 2; this version reads format 1\."):
        cl.Samples.load(stored, model_of())
