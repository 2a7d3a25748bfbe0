import gzip
import hashlib
import io
import urllib.error
from dataclasses import replace

import numpy as np
import pytest
import torch

from colangevin.experiments.catalogue import bounded_images
from colangevin.experiments.data import download, fashion_mnist
from colangevin.experiments.data.sources import DataError
from colangevin.experiments.training import points
from tests.experiments.small_data import files_in


def contents():
    """Files in the official format: 12 and 8 images, whose first pixel is their label."""
    files = {}
    for part, count in (("train", 12), ("t10k", 8)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        images = np.zeros((count, 784), dtype=np.uint8)
        images[:, 0] = labels
        images[:, 1] = 255
        files[f"{part}-images-idx3-ubyte.gz"] = bytes(16) + images.tobytes()
        files[f"{part}-labels-idx1-ubyte.gz"] = bytes(8) + labels.tobytes()
    return files


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without the data and without a network; its folder for data."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents().items()}
    monkeypatch.setattr(fashion_mnist, "SUMS", sums)
    monkeypatch.setattr(fashion_mnist, "SYSTEM", tmp_path / "system")
    monkeypatch.setenv("COLANGEVIN_DATA", str(tmp_path / "data"))

    def unreachable(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(download.urllib.request, "urlopen", unreachable)
    return tmp_path / "data" / "fashion-mnist"


class Answer(io.BytesIO):
    """What urlopen returns, as far as it is used."""


def fill(folder, **changes):
    folder.mkdir(parents=True)
    for name, content in {**contents(), **changes}.items():
        (folder / name).write_bytes(gzip.compress(content))


def serve(monkeypatch, spoil=lambda packed: packed):
    """A network that has the files."""
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        answer = Answer(spoil(gzip.compress(contents()[url.removeprefix(fashion_mnist.SOURCE.url)])))
        answer.headers = {"Content-Length": "1000"}
        return answer

    monkeypatch.setattr(download.urllib.request, "urlopen", urlopen)
    return asked


def test_found_where_the_variable_points(machine):
    fill(machine)
    for part, count in (("train", 12), ("t10k", 8)):
        pixels, classes = fashion_mnist.load()[part]
        assert pixels.shape == (count, 784)
        assert torch.equal(pixels[:, 0].long(), classes)
        assert classes.tolist() == [i % 10 for i in range(count)]


def test_found_in_the_system(machine, tmp_path):
    fill(tmp_path / "system")
    assert fashion_mnist.locate() == tmp_path / "system"


def test_without_the_variable_the_users_cache_is_looked_at(machine, tmp_path, monkeypatch):
    monkeypatch.delenv("COLANGEVIN_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fill(tmp_path / "cache" / "colangevin" / "fashion-mnist")
    assert fashion_mnist.locate() == tmp_path / "cache" / "colangevin" / "fashion-mnist"


def test_nowhere_and_no_network_says_what_to_do(machine):
    with pytest.raises(DataError) as caught:
        fashion_mnist.locate()
    text = str(caught.value)
    assert "no network" in text
    assert str(machine / "t10k-labels-idx1-ubyte.gz") in text
    assert "COLANGEVIN_DATA" in text
    assert "dataset-fashion-mnist" in text
    assert "Then run the command again." in text


def test_downloaded_once_with_progress(machine, monkeypatch):
    asked, told = serve(monkeypatch), []
    assert fashion_mnist.locate(lambda *news: told.append(news)) == machine
    assert len(asked) == 4
    assert told[-1][0] == "t10k-labels-idx1-ubyte.gz"
    assert told[-1][2] == 1000
    fashion_mnist.load()
    assert len(asked) == 4


def test_a_download_that_is_not_what_it_should_be_leaves_nothing(machine, monkeypatch):
    serve(monkeypatch, spoil=lambda packed: gzip.compress(b"something else"))
    with pytest.raises(DataError, match=r"SHA-256 .*Fashion-MNIST's are"):
        fashion_mnist.locate()
    assert files_in(machine) == [".lock"]
    serve(monkeypatch, spoil=lambda packed: packed[:40])
    with pytest.raises(DataError, match=r"ubyte\.gz: is not a whole file of Fashion-MNIST \(.* Try again"):
        fashion_mnist.locate()
    assert files_in(machine) == [".lock"]


def test_a_changed_file_is_refused_by_name(machine):
    fill(machine, **{"train-labels-idx1-ubyte.gz": bytes(20)})
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte.gz: the unpacked contents have SHA-256"):
        fashion_mnist.load()


def split(how, train=5, test=15, seed=0):
    return fashion_mnist.split(train, test, how, torch.Generator().manual_seed(seed))


def test_split_of_the_first_images_and_all_others(machine):
    fill(machine)
    official = fashion_mnist.load()
    x, y, x_test, y_test = split("first")
    assert (x.shape, x_test.shape) == ((5, 784), (15, 784))
    assert torch.equal(torch.cat([y, y_test]), torch.cat([official["train"][1], official["t10k"][1]]))
    assert torch.equal((x[:, 0] * 255).round().long(), y)
    assert float(x_test.max()) == 1.0


def test_split_with_the_official_sets_exchanged(machine):
    fill(machine)
    official = fashion_mnist.load()
    _, y, _, y_test = split("exchanged", 8, 12)
    assert torch.equal(y, official["t10k"][1])
    assert torch.equal(y_test, official["train"][1])


def test_split_drawn_by_seed_uses_every_image_once(machine):
    fill(machine)
    official = fashion_mnist.load()
    pixels = torch.cat([official["train"][0], official["t10k"][0]])
    x, y, x_test, y_test = split("drawn")
    assert torch.equal((x[:, 0] * 255).round().long(), y)
    drawn = (torch.cat([x, x_test]) * 255).round().byte()
    assert sorted(map(tuple, drawn.tolist())) == sorted(map(tuple, pixels.tolist()))
    assert not torch.equal(drawn, pixels)
    assert all(torch.equal(a, b) for a, b in zip(split("drawn"), (x, y, x_test, y_test), strict=True))
    assert not torch.equal(split("drawn", seed=1)[0], x)


def test_data_of_an_experiment_are_drawn_once_or_for_each_run_and_centred_on_demand(machine):
    fill(machine)
    problem = replace(bounded_images.PROBLEM, train=5, test=15)
    once = points.prepare(problem, runs=2, seed=0)
    each = points.prepare(replace(problem, one_data_set=False, centred=True), runs=2, seed=0)
    assert (once.x.shape, each.x.shape) == ((1, 5, 784), (2, 5, 784))
    assert torch.equal(each.x[0], 2 * once.x[0] - 1)
    assert torch.equal(each.x_test[0], 2 * once.x_test[0] - 1)
    assert not torch.equal(each.x[0], each.x[1])
