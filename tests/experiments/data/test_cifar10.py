import hashlib
import io
import lzma
import pickle
import tarfile
import urllib.error

import numpy as np
import pytest
import torch

from colangevin.experiments.data import cifar10, download
from colangevin.experiments.data.sources import DataError
from tests.experiments.small_data import cifar_batches, files_in, sums_of

BATCHES = cifar_batches()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without the data and without a network; its folder for data."""
    monkeypatch.setattr(cifar10, "SUMS", dict(zip(BATCHES, sums_of(BATCHES.values()), strict=True)))
    monkeypatch.setenv("COLANGEVIN_DATA", str(tmp_path))

    def unreachable(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(download.urllib.request, "urlopen", unreachable)
    return tmp_path / "cifar-10"


def as_python(content):
    """What the official Python layout holds, in the protocol it was written with."""
    records = np.frombuffer(content, np.uint8).reshape(-1, cifar10.RECORD)
    batch = {b"labels": records[:, 0].tolist(), b"data": records[:, 1:].copy(), b"filenames": [b"a.png"]}
    return pickle.dumps(batch, protocol=2)


def as_packed(content):
    """The packed form, pixel by pixel."""
    records = np.frombuffer(content, np.uint8).reshape(-1, cifar10.RECORD).astype(int)
    R, G, B = records[:, 1:].reshape(-1, 3, 32, 32).transpose(1, 0, 2, 3)
    planes = (np.stack([G, R - G, B - G]) + 128) % 256
    missed = np.zeros_like(planes)
    for i in range(32):
        for j in range(32):
            W = planes[..., i, j - 1] if j else None
            N = planes[..., i - 1, j] if i else None
            if i and j:
                predicted = np.median([W, N, W + N - planes[..., i - 1, j - 1]], axis=0).astype(int)
            else:
                predicted = W if j else N if i else 0
            missed[..., i, j] = (planes[..., i, j] - predicted) % 256
    return lzma.compress(records[:, 0].astype(np.uint8).tobytes() + missed.astype(np.uint8).tobytes())


LAYOUTS = {
    "binary": ("cifar-10-batches-bin", ".bin", bytes),
    "python": ("cifar-10-batches-py", "", as_python),
    "packed": (".", ".medxz", as_packed),
}


def fill(folder, layout, **changes):
    place, suffix, convert = LAYOUTS[layout]
    (folder / place).mkdir(parents=True)
    for name, content in {**BATCHES, **changes}.items():
        (folder / place / f"{name}{suffix}").write_bytes(convert(content))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_images(machine, layout):
    fill(machine, layout)
    pixels, classes = cifar10.load()
    assert pixels.shape == (72, 3, 32, 32)
    assert pixels.dtype == torch.uint8
    records = np.frombuffer(BATCHES["data_batch_2"], np.uint8).reshape(-1, cifar10.RECORD)
    assert torch.equal(pixels[12:24].flatten(1), torch.from_numpy(records[:, 1:].copy()))
    assert classes[12:24].tolist() == records[:, 0].tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_changed_batch_is_refused_by_name(machine, layout):
    spoiled = bytearray(BATCHES["test_batch"])
    spoiled[5000] ^= 1
    fill(machine, layout, test_batch=bytes(spoiled))
    with pytest.raises(DataError, match=r"test_batch.*: the unpacked contents have SHA-256 .*CIFAR-10's are"):
        cifar10.load()


@pytest.mark.parametrize("layout", ["python", "packed"])
def test_a_cut_file_is_refused_by_name(machine, layout):
    fill(machine, layout)
    place, suffix, convert = LAYOUTS[layout]
    (machine / place / f"data_batch_3{suffix}").write_bytes(convert(BATCHES["data_batch_3"])[:100])
    with pytest.raises(DataError, match=r"data_batch_3.* is not a whole file of CIFAR-10"):
        cifar10.load()


class Harm:
    def __reduce__(self):
        return (print, ("harm",))


def test_a_pickle_that_calls_something_is_not_obeyed(machine, capsys):
    fill(machine, "python")
    (machine / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(Harm()))
    with pytest.raises(DataError, match=r"it asks for builtins\.print"):
        cifar10.load()
    assert capsys.readouterr().out == ""


def test_nowhere_and_no_network_says_what_to_do(machine):
    with pytest.raises(DataError) as caught:
        cifar10.load()
    text = str(caught.value)
    assert "no network" in text
    assert str(machine / "cifar-10-batches-bin") in text
    assert str(machine / "cifar-10-batches-py") in text
    assert "COLANGEVIN_DATA" in text
    assert files_in(machine) == [".lock"]


def serve(monkeypatch, batches=BATCHES):
    """A network that has the archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in batches.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

    class Answer(io.BytesIO):
        headers = {"Content-Length": "7"}  # noqa: RUF012

    monkeypatch.setattr(download.urllib.request, "urlopen", lambda url, timeout: Answer(buffer.getvalue()))
    return buffer.getvalue()


def test_downloaded_once_with_progress(machine, monkeypatch):
    archive, told = serve(monkeypatch), []
    monkeypatch.setattr(cifar10, "ARCHIVE", hashlib.sha256(archive).hexdigest())
    first = cifar10.load(lambda *news: told.append(news))
    assert told[-1] == ("cifar-10-binary.tar.gz", len(archive), 7)
    told.clear()
    again = cifar10.load(lambda *news: told.append(news))
    assert told == []
    assert torch.equal(first[0], again[0])


def test_an_archive_that_is_not_the_official_one_leaves_nothing(machine, monkeypatch):
    serve(monkeypatch)
    with pytest.raises(DataError, match=r"SHA-256 .*CIFAR-10's archive's are"):
        cifar10.load()
    assert files_in(machine) == [".lock"]
