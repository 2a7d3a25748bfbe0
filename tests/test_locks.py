"""Locks between processes: who has them, when they end, and what happens where there are none."""

import copy
import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import colangevin
from colangevin import locks
from colangevin.locks import Lock, alone, alone_in, unless_taken

SOURCE = str(Path(colangevin.__file__).parent)

HOLDS = """
from locks import Lock
lock = Lock(pathlib.Path(sys.argv[1]))
print(lock.take(), flush=True)
sys.stdin.read()
"""

# The child of a fork tells whether it has the lock, and outlives its parent.
FORKS = """
import os, time
from locks import Lock
lock = Lock(pathlib.Path(sys.argv[1]))
lock.take()
if os.fork() == 0:
    print(os.getpid(), lock.held, lock.take(), flush=True)
time.sleep(100)
"""


@contextmanager
def script(text, path):
    """A process that has the module alone, without the seconds that torch takes to import."""
    begin = f"import sys, pathlib; sys.path.insert(0, {SOURCE!r})\n"
    command = [sys.executable, "-W", "ignore", "-c", begin + text, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".lock"


def test_one_process_has_it_until_it_is_killed(path):
    lock = Lock(path)
    with script(HOLDS, path) as process:
        assert process.stdout.readline() == "True\n"
        assert not lock.take()
        assert not lock.held
        process.kill()
        process.wait()
        assert lock.take()
    with script(HOLDS, path) as process:
        assert process.stdout.readline() == "False\n"


@pytest.mark.parametrize("end", [Lock.release, Lock.__del__])
def test_it_can_be_had_when_it_was_given_up(path, end):
    lock = Lock(path)
    assert lock.take()
    end(lock)
    assert not lock.held
    with script(HOLDS, path) as process:
        assert process.stdout.readline() == "True\n"


def test_within_a_process_the_latest_has_it(path):
    first, second = Lock(path), Lock(path)
    assert first.take()
    assert second.take()
    assert (first.held, second.held) == (False, True)
    del first
    with script(HOLDS, path) as process:
        assert process.stdout.readline() == "False\n"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda lock: pickle.loads(pickle.dumps(lock))])
def test_a_copy_does_not_have_it(path, copied):
    lock = Lock(path)
    lock.take()
    other = copied(lock)
    assert (lock.held, other.held) == (True, False)
    del other
    assert lock.held


def test_the_child_of_a_fork_neither_has_it_nor_keeps_it(path):
    with script(FORKS, path) as process:
        child, *has_it = process.stdout.readline().split()
        try:
            assert has_it == ["False", "False"]
            process.kill()
            process.wait()
            assert Lock(path).take()
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_it_ends_when_its_file_is_removed(path):
    lock = Lock(path)
    lock.take()
    path.unlink()
    assert not lock.held
    path.write_bytes(b"")
    assert not lock.held
    assert lock.take()
    assert lock.held


def test_a_link_in_place_of_the_file_is_not_followed(path, tmp_path):
    path.symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        Lock(path).take()
    assert os.listdir(tmp_path) == [".lock"]


def test_others_wait(path):
    entered = []

    def enter():
        with alone(path) as only:
            entered.append(only)

    thread = threading.Thread(target=enter)
    with alone(path) as only:
        assert only
        thread.start()
        time.sleep(0.1)
        assert entered == []
    thread.join()
    assert entered == [True]


def no_module(monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    return "this platform has no flock"


def no_support(monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    return "No locks available"


@pytest.mark.parametrize("missing", [no_module, no_support])
def test_where_there_are_none_it_is_said(path, monkeypatch, missing):
    message = rf"\.lock: there are no locks here \({missing(monkeypatch)}\)\. See to it that only one process"
    lock = Lock(path)
    with pytest.warns(UserWarning, match=message):
        assert lock.take()
    assert lock.held
    with alone(path) as only:
        assert not only


def test_a_folder_itself_can_be_waited_for_and_stays_as_it_was(tmp_path):
    with alone_in(tmp_path) as first:
        assert first
        with unless_taken(tmp_path / ".lock") as other:
            assert other  # the lock of the folder is not that of a file in it
    assert os.listdir(tmp_path) == [".lock"]


def test_without_waiting_the_second_to_come_does_not_have_it_even_in_the_same_process(path):
    with unless_taken(path) as first, unless_taken(path) as second:
        assert (first, second) == (True, False)
    with unless_taken(path) as third:
        assert third


def test_without_waiting_a_place_without_locks_is_an_error(path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    with pytest.raises(OSError, match="no flock"), unless_taken(path):
        pass
    with alone_in(path.parent) as ours:
        assert not ours
