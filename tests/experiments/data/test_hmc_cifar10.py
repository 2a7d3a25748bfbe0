import hashlib
import urllib.error

import numpy as np
import pytest
import torch

from colangevin.experiments.data import download, hmc_cifar10
from colangevin.experiments.data.sources import DataError


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A small file in the published order, and what it says in the official one."""
    official = torch.softmax(torch.arange(120.0, dtype=torch.float64).view(12, 10).cos(), 1)
    rows = official[hmc_cifar10.published_order(12)]
    path = tmp_path / "hmc-cifar10" / "probs.csv"
    path.parent.mkdir()
    np.savetxt(path, rows.numpy())
    monkeypatch.setattr(hmc_cifar10, "SUM", hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setenv("COLANGEVIN_DATA", str(tmp_path))
    return path, official


def test_rows_come_in_the_official_order(published):
    assert torch.equal(hmc_cifar10.load(), published[1])


def test_the_order_is_that_of_the_hashes():
    digests = [hashlib.md5(f"test{number}".encode()).hexdigest() for number in range(100)]
    assert [digests[number] for number in hmc_cifar10.published_order(100)] == sorted(digests)


def test_a_changed_file_is_refused_by_name(published):
    with published[0].open("a") as file:
        file.write("1 2 3\n")
    with pytest.raises(
        DataError, match=r"probs.csv: .* have SHA-256 .*the predictions of HMC on CIFAR-10's are"
    ):
        hmc_cifar10.load()


def test_what_is_nowhere_is_downloaded(published, monkeypatch):
    path, official = published
    content = path.read_bytes()
    path.unlink()
    asked = []
    monkeypatch.setattr(
        "colangevin.experiments.data.sources.fetch", lambda url, progress: asked.append(url) or content
    )
    assert torch.equal(hmc_cifar10.load(), official)
    assert asked == [hmc_cifar10.SOURCE.url]
    assert torch.equal(hmc_cifar10.load(), official)
    assert len(asked) == 1


def test_nowhere_and_no_network_says_what_to_do(published, monkeypatch):
    published[0].unlink()

    def unreachable(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(download.urllib.request, "urlopen", unreachable)
    with pytest.raises(
        DataError, match=r"HMC on CIFAR-10 is not on this machine .*\n.*Put the file there: .*probs"
    ):
        hmc_cifar10.load()
