"""The examples on images, with scikit-learn's digits and few epochs."""

import gzip
import io

import pytest
import torch

import colangevin as cl
from examples import calibration, cold_posterior, fashion_mnist, images

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_without_fashion_mnist_there_are_digits(monkeypatch, tmp_path):
    def absent(*_args, **_options):
        raise OSError("not here")

    monkeypatch.setattr(fashion_mnist, "CACHE", tmp_path)
    monkeypatch.setattr(fashion_mnist, "SYSTEM", tmp_path)
    monkeypatch.setattr(fashion_mnist.urllib.request, "urlopen", absent)
    found = images.load("auto", CPU)
    assert (found.name, found.x.shape, found.x_test.shape) == ("digits", (1000, 64), (797, 64))
    assert float(found.x.min()) == 0
    assert float(found.x.max()) == 1


def test_fashion_mnist_comes_first(monkeypatch, tmp_path):
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        pixels = bytes(16) + bytes([count // 1000]) * 784 * count
        labels = bytes(8) + bytes([count % 7]) * count
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(pixels, 1))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels, 1))
    monkeypatch.setattr(fashion_mnist, "CACHE", tmp_path)
    found = images.load("auto", CPU)
    assert (found.name, found.x.shape, found.x_test.shape) == ("fashion-mnist", (10_000, 784), (10_000, 784))
    assert found.build()[0].weight.shape == (1000, 784)
    for x, y in ((found.x, found.y), (found.x_test, found.y_test)):
        # images keep their labels, and both sets are drawn from all
        assert torch.equal(x[:, 0] == 60 / 255, y == 60_000 % 7)
        assert 0.8 < float((y == 60_000 % 7).float().mean()) < 0.9


def test_what_is_not_here_is_downloaded_once(monkeypatch, tmp_path):
    asked = []

    def answer(url, timeout):
        asked.append(url)
        return io.BytesIO(gzip.compress(b"12345"))

    monkeypatch.setattr(fashion_mnist, "CACHE", tmp_path / "new")
    monkeypatch.setattr(fashion_mnist, "SYSTEM", tmp_path)
    monkeypatch.setattr(fashion_mnist.urllib.request, "urlopen", answer)
    for _ in range(2):
        assert bytes(fashion_mnist._bytes("a.gz").tolist()) == b"12345"
    assert asked == [fashion_mnist.URL + "a.gz"]


def test_every_method_learns_and_heat_destroys():
    found, report = calibration.compare(
        images.load("digits", CPU), [0.01, 1e4], copies=3, chains=2, epochs=45
    )
    judged = {name: cl.quality(each, images.load("digits", CPU).y_test) for name, each in found.items()}
    assert list(judged) == ["SGD", "ensemble of 3", "c-CoLud, T = 0.01", "c-CoLud, T = 10000"]
    assert all(judged[name].accuracy > 0.85 for name in list(judged)[:3])
    assert judged["c-CoLud, T = 10000"].accuracy < 0.7
    assert judged["c-CoLud, T = 10000"].nll > 4 * judged["c-CoLud, T = 0.01"].nll
    assert max(group.violation for group in report.groups) < 1e-6


def test_calibration_runs(tmp_path, capsys):
    words = "--data digits --epochs 6 --copies 2 --chains 1 --temperatures 0.1 1 --out"
    calibration.main([*words.split(), str(tmp_path / "plots")])
    output = capsys.readouterr().out
    for word in ("digits: 1000 training and 797 test images", "ensemble of 2", "c-CoLud, T = 0.1", "ECE"):
        assert word in output
    assert len(list((tmp_path / "plots").glob("*.svg"))) == 4


def test_cold_posterior_runs(tmp_path, capsys):
    words = "--data digits --epochs 6 --chains 1 --temperatures 0.01 1 --out"
    cold_posterior.main([*words.split(), str(tmp_path)])
    output = capsys.readouterr().out
    assert "one network of SGD: accuracy" in output
    assert (tmp_path / "cold_posterior.svg").stat().st_size > 1000


def test_the_curve_is_in_the_order_of_the_temperatures():
    points, _, _ = cold_posterior.curve(images.load("digits", CPU), [1e4, 0.01], chains=1, epochs=45)
    assert [point.temperature for point in points] == [1e4, 0.01]
    assert points[0].quality.nll > 4 * points[1].quality.nll
