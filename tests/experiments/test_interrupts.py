"""Signals: the first saves, the second stops at once, with the exit status that shells expect."""

import fcntl
import os
import pty
import signal
import subprocess
import termios
import threading

import pytest
from typer.testing import CliRunner

from colangevin.experiments import cli, interrupts
from colangevin.experiments.catalogue import index
from colangevin.experiments.judging import plane
from tests.experiments.command_line import TINY, contents, finish, start, wait_for
from tests.experiments.tiny import experiment

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_saves_and_says_how_to_go_on(whole, tmp_path, number):
    folder = tmp_path / "four-turn"
    process = start("run", "fig4", "--out", tmp_path)
    wait_for((folder / "part-1.pt").exists, process)
    process.send_signal(number)
    status, text = finish(process)
    assert status == 128 + number, text
    assert f"Stopped and saved. To go on:\n    colangevin run four-turn --out {tmp_path} --resume" in text
    assert (folder / "part-1.pt").exists()
    if number == signal.SIGTERM:
        status, text = finish(start("run", "fig4", "--out", tmp_path, "--resume"))
        assert status == 0, text
        assert contents(folder) == whole


# An epoch that never ends.
STUCK = TINY.replace(
    "main()\n",
    """
import pathlib, time
from colangevin.experiments.training.stack_training import StackTraining
def advance(_):
    pathlib.Path(sys.argv[-1], "stuck").touch()
    while True:
        time.sleep(0.01)
StackTraining.advance = advance
main()
""",
)


@pytest.mark.parametrize(
    "second",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
    ids=lambda number: number.name,
)
def test_a_second_signal_stops_at_once(tmp_path, second):
    process = start("run", "fig4", "--out", tmp_path, script=STUCK)
    wait_for((tmp_path / "stuck").exists, process)
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(second)
    status, text = finish(process)
    assert status == 128 + second, text
    assert "Stopped at once" in text
    assert "--resume" in text


def test_a_terminal_that_is_closed_saves(tmp_path):
    ours, theirs = pty.openpty()
    process = start(
        "run", "fig4", "--out", tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    wait_for((tmp_path / "four-turn" / "part-1.pt").exists, process)
    os.close(ours)  # the kernel then sends SIGHUP
    assert process.wait(300) == 128 + signal.SIGHUP
    assert (tmp_path / "four-turn" / "part-1.pt").exists()
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.slow
def test_a_hangup_that_is_ignored_stays_ignored(whole, tmp_path):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start("run", "fig4", "--out", tmp_path, preexec_fn=ignore)
    wait_for((tmp_path / "four-turn" / "part-1.pt").exists, process)
    process.send_signal(signal.SIGHUP)
    status, text = finish(process)
    assert status == 0, text
    assert contents(tmp_path / "four-turn") == whole


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with interrupts.noted() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupted()
        assert interrupted.status == 129
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_run_outside_the_main_thread_goes_through(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "EXPERIMENTS", (experiment(),))
    monkeypatch.setattr(plane, "GRID", 60)
    monkeypatch.setattr(plane, "PICTURE", 12)
    answers = []
    words = ["run", "fig4", "--runs", "1", "--epochs", "1", "--device", "cpu", "--out", str(tmp_path)]
    thread = threading.Thread(target=lambda: answers.append(CliRunner().invoke(cli.app, words)))
    thread.start()
    thread.join()
    assert answers[0].exit_code == 0, answers[0].output
