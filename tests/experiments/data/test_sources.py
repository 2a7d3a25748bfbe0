"""Files of data sets: damaged, foreign, wanted by several processes at once, downloaded badly."""

import errno
import gzip
import hashlib
import io
import lzma
import os
import pickle
import random
import tarfile
import threading
import time
from dataclasses import dataclass, replace
from http.client import IncompleteRead
from pathlib import Path

import numpy as np
import pytest

from colangevin.experiments.data import cifar10, corpora, download, fashion_mnist
from colangevin.experiments.data.sources import DataError, Source
from colangevin.files import write_whole
from tests.experiments.data.test_cifar10 import LAYOUTS
from tests.experiments.data.test_fashion_mnist import contents as fashion_contents
from tests.experiments.small_data import cifar_batches, corpus_texts, files_in, sums_of


@dataclass(frozen=True)
class DataSet:
    """A small one of the real one's form: how to load it, its files, and what the network has."""

    load: object
    files: dict[str, bytes]
    network: dict[str, bytes]


def cifar(layout, patch):
    batches = cifar_batches(3)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in batches.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    patch.setattr(cifar10, "SUMS", dict(zip(batches, sums_of(batches.values()), strict=True)))
    patch.setattr(cifar10, "ARCHIVE", hashlib.sha256(buffer.getvalue()).hexdigest())
    place, suffix, convert = LAYOUTS[layout]
    files = {f"cifar-10/{place}/{name}{suffix}": convert(content) for name, content in batches.items()}
    return DataSet(cifar10.load, files, {cifar10.SOURCE.url: buffer.getvalue()})


def fashion(patch, tmp_path):
    contents = fashion_contents()
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    patch.setattr(fashion_mnist, "SUMS", sums)
    patch.setattr(fashion_mnist, "SYSTEM", tmp_path / "system")
    packed = {name: gzip.compress(content) for name, content in contents.items()}
    return DataSet(
        fashion_mnist.load,
        {f"fashion-mnist/{name}": content for name, content in packed.items()},
        {fashion_mnist.SOURCE.url + name: content for name, content in packed.items()},
    )


def ptb(patch):
    texts = corpus_texts()
    corpus = replace(corpora.CORPORA["ptb"], sums=tuple(sums_of(texts)))
    patch.setattr(corpora, "CORPORA", {"ptb": corpus})
    files = dict(zip(corpus.files, texts, strict=True))
    return DataSet(
        lambda: corpora.load("ptb"),
        {f"ptb/{name}": content for name, content in files.items()},
        {corpus.url + name: content for name, content in files.items()},
    )


@pytest.fixture(params=["fashion-mnist", "ptb", *LAYOUTS])
def data_set(request, tmp_path, monkeypatch):
    monkeypatch.setenv("COLANGEVIN_DATA", str(tmp_path / "data"))
    if request.param in LAYOUTS:
        return cifar(request.param, monkeypatch)
    return ptb(monkeypatch) if request.param == "ptb" else fashion(monkeypatch, tmp_path)


@pytest.fixture
def there(data_set, tmp_path):
    """The last file of a data set that is on this machine."""
    for name, content in data_set.files.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    data_set.load()
    return path


def refused(data_set, path):
    """Whether a file is refused by name, with what to do; nothing else may be raised."""
    text = ""
    try:
        data_set.load()
    except DataError as error:
        text = str(error)
    todo = "Put the official file in its place, or remove it; it is then downloaded."
    assert not text or (text.startswith(f"{path}: ") and text.endswith(todo))
    return bool(text)


# ---- damaged and foreign files -----------------------------------------------------------------------


def test_a_file_that_is_cut_anywhere_is_refused_by_name(data_set, there):
    content = there.read_bytes()
    for length in (0, 1, 2, 10, 18, len(content) // 2, len(content) - 9, len(content) - 1):
        there.write_bytes(content[:length])
        assert refused(data_set, there)


def test_a_file_with_a_changed_bit_is_refused_by_name_or_says_the_same(data_set, there):
    """The same: gzip's header holds a time, a pickle may name a file otherwise."""
    content, chance = there.read_bytes(), random.Random(0)
    places = [*range(20), *(chance.randrange(len(content)) for _ in range(20))]
    found = []
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << chance.randrange(8)
        there.write_bytes(damaged)
        found.append(refused(data_set, there))
    assert sum(found) > len(found) / 2


FOREIGN = {
    "nothing": b"",
    "text": b"<html>404 Not Found</html>",
    "zeros": bytes(5000),
    "noise": random.Random(0).randbytes(5000),
    "gzip of another": gzip.compress(b"another"),
    "gzip, damaged inside": gzip.compress(bytes(5000))[:12] + b"\xff" * 50,
    "xz of another": lzma.compress(b"another"),
    "a number": pickle.dumps(3),
    "a list": pickle.dumps([1, 2]),
    "labels that are none": pickle.dumps({b"labels": None, b"data": None}),
    "labels that are too large": pickle.dumps({b"labels": [10**9], b"data": np.zeros((1, 3072), np.uint8)}),
    "labels without images": pickle.dumps({b"labels": [1], b"data": np.zeros((2, 3072), np.uint8)}),
    "an array of objects": pickle.dumps({b"labels": [1], b"data": np.array([[None]])}, protocol=2),
    "a memo that is not there": b"h\x07.",
    "a stack that is empty": b"0.",
    "more than there is memory": b"\x8e" + (1 << 60).to_bytes(8, "little") + b"x.",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_by_name(data_set, there, content):
    there.write_bytes(content)
    assert refused(data_set, there)


def test_a_file_that_cannot_be_read_is_named(data_set, there, monkeypatch):
    def read_bytes(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with pytest.raises(
        DataError, match=r": cannot be read \(Permission denied\)\. Make it readable\. Put the"
    ):
        data_set.load()


# ---- downloads ---------------------------------------------------------------------------------------


@pytest.fixture
def network(data_set, monkeypatch):
    """Has the files; says which were asked for."""
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        time.sleep(0.01)
        answer = io.BytesIO(data_set.network[url])
        answer.headers = {"Content-Length": "many"}
        return answer

    monkeypatch.setattr(download.urllib.request, "urlopen", urlopen)
    return asked


def test_of_many_that_start_without_data_one_downloads(data_set, network, tmp_path):
    """Threads stand for processes: they too have locks and temporary names of their own."""
    failed, start = [], threading.Barrier(4)

    def load():
        try:
            start.wait()
            data_set.load()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(network) == sorted(data_set.network)
    assert not [name for name in files_in(tmp_path) if name.endswith(".part")]


def test_what_a_kill_left_of_a_download_is_swept_up(data_set, network, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # as if killed
        patch.setattr(Path, "replace", full)
        with pytest.raises(DataError):
            data_set.load()
    assert [name for name in files_in(tmp_path) if name.endswith(".part")]
    data_set.load()
    assert not [name for name in files_in(tmp_path) if name.endswith(".part")]


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_named_and_nothing_is_left(data_set, network, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        message = (
            r": could not be written \(No space left on device\)\. Make room .* Then run the command again"
        )
        with pytest.raises(DataError, match=message):
            data_set.load()
    assert files_in(tmp_path) == [".lock"]
    data_set.load()


def test_an_answer_that_is_cut_is_told_as_a_failed_download(data_set, network, tmp_path, monkeypatch):
    class Cut(io.BytesIO):
        headers = {}  # noqa: RUF012

        def read(self, size):
            raise IncompleteRead(b"", 100)

    monkeypatch.setattr(download.urllib.request, "urlopen", lambda url, timeout: Cut())
    with pytest.raises(DataError, match=r"could not be downloaded from http.* \(IncompleteRead: "):
        data_set.load()
    assert files_in(tmp_path) == [".lock"]


def test_a_download_of_something_else_is_not_kept(data_set, network, tmp_path):
    for url in data_set.network:
        data_set.network[url] = b"<html>log in first</html>"
    with pytest.raises(
        DataError, match=r"^http.*: .* Nothing of it was kept\. Try again later, or put the of"
    ):
        data_set.load()
    assert files_in(tmp_path) == [".lock"]


def test_a_download_goes_on_beside_what_others_left_in_the_folder(tmp_path):
    write_whole(tmp_path / "file", b"whole")
    foreign = tmp_path / ".film.mkv.part"
    foreign.write_bytes(b"somebody else's")
    (tmp_path / ".file.0a1b2c3d.part").write_bytes(b"half")
    with Source("data", "Data", "").downloading(tmp_path, ["file"], "Put it here"):
        assert sorted(os.listdir(tmp_path)) == [".film.mkv.part", ".lock", "file"]
