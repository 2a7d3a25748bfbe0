"""Files that are written whole or not at all: by many at once, on a full disk, killed, oddly named."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import colangevin
from colangevin import files
from colangevin.files import HALF, write_whole

SOURCE = str(Path(colangevin.__file__).parent)


def run(script, *arguments):
    """A script that has the module alone, without the seconds that torch takes to import."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {SOURCE!r})\n{script}", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_new_file_takes_the_place_of_the_old(tmp_path):
    path = tmp_path / "file"
    for content in (b"old", b"", bytes(1 << 20)):
        write_whole(path, content)
        assert path.read_bytes() == content
        assert os.listdir(tmp_path) == ["file"]


def test_many_writers_of_one_file_never_mix(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # for speed: it is the names that are tried
    path = tmp_path / "file"
    contents = {bytes([i]) * (50_000 + i) for i in range(4)}
    write_whole(path, next(iter(contents)))
    failed, running = [], threading.Event()

    def write(content):
        try:
            for _ in range(100):
                write_whole(path, content)
        except BaseException as error:
            failed.append(error)

    def read():
        while not running.is_set():
            if path.read_bytes() not in contents:
                failed.append("torn")

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    running.set()
    reader.join()
    assert failed == []
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("planted", [f".file{HALF}", f".file.0123abcd{HALF}"])
def test_a_planted_link_is_not_followed(tmp_path, monkeypatch, planted):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / planted).symlink_to(victim)
    monkeypatch.setattr(files.os, "urandom", lambda _: bytes.fromhex("0123abcd"))
    try:
        write_whole(folder / "file", b"new")
    except FileExistsError:
        assert "0123abcd" in planted  # who guesses the name stops the write, and no more
    else:
        assert (folder / "file").read_bytes() == b"new"
    assert victim.read_bytes() == b"precious"
    assert (folder / planted).is_symlink()


def test_a_link_in_place_of_the_file_is_replaced_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "file").symlink_to(victim)
    write_whole(tmp_path / "file", b"new")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["a b", "*[a].json", "ünï", "new\nline", "-rf", "'quote\"", ".hidden"])
def test_hostile_names(tmp_path, name):
    write_whole(tmp_path / name, b"new")
    assert os.listdir(tmp_path) == [name]


KILLED = """
import os, pathlib
from files import write_whole
os.fsync = lambda _: os._exit(9)
write_whole(pathlib.Path(sys.argv[1]), b"new")
"""


def test_a_kill_half_way_leaves_the_old_file_and_a_hidden_one(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"old")
    assert run(KILLED, str(path)).returncode == 9
    assert path.read_bytes() == b"old"
    left = [name for name in os.listdir(tmp_path) if name != "file"]
    assert left == [each.name for each in tmp_path.glob(f".file.*{HALF}")]
    assert len(left) == 1


FULL = """
import errno, os, pathlib, resource
from files import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_whole(pathlib.Path(sys.argv[1]), bytes(5000))
except OSError as error:
    print(errno.errorcode[error.errno])
"""


def test_a_file_that_does_not_fit_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"old")
    assert run(FULL, str(path)).stdout == "EFBIG\n"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, moment):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os if moment == "fsync" else Path, moment, full)
    with pytest.raises(OSError, match="No space left on device"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
