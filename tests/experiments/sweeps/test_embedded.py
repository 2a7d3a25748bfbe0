import os
import signal

import pytest

from tests.experiments.command_line import contents, finish, wait_for
from tests.experiments.sweeps.embedded import alive, descendants, failing, notes, start_alone, start_ray

pytest.importorskip("ray", reason="needs the extra 'ray'")


def at(folder, part, epoch, process):
    """Wait until a job has come to an epoch and has a checkpoint."""

    def arrived():
        epochs = notes(folder).get(part, {}).values() if (folder / "notes").exists() else ()
        return (
            any(epoch in each for each in epochs)
            and (folder / "four-turn" / f"{part.replace(' ', '-')}.pt").exists()
        )

    wait_for(arrived, process)


def test_a_killed_worker_s_job_goes_on_and_ends_with_the_same_bytes(whole, tmp_path):
    process = start_ray(tmp_path, jobs=2)
    at(tmp_path, "part 1", 4, process)
    (worker,) = notes(tmp_path)["part 1"]
    started = descendants(process.pid)
    assert worker in started
    os.kill(worker, signal.SIGKILL)
    status, text = finish(process)
    assert status == 0, text
    assert contents(tmp_path / "four-turn") == whole
    (killed, before), (_, after) = notes(tmp_path)["part 1"].items()
    assert killed == worker
    assert 1 < after[0] <= before[-1] + 1  # from the checkpoint, not from the start
    assert after[-1] == 12
    assert "Traceback" not in text
    assert not alive(started)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "on_ray"),
    [
        pytest.param(signal.SIGINT, False, id="SIGINT, resumed without Ray"),
        pytest.param(signal.SIGHUP, True, id="SIGHUP, resumed on Ray"),
    ],
)
def test_a_signal_from_the_terminal_saves_what_runs_and_starts_nothing_more(whole, tmp_path, number, on_ray):
    """A terminal sends it to all processes of its group, Ray's among them."""
    process = start_ray(tmp_path, start_new_session=True)
    at(tmp_path, "part 1", 2, process)
    started, begun = descendants(process.pid), notes(tmp_path).keys()
    os.killpg(process.pid, number)
    status, text = finish(process)
    assert status == 128 + number, text
    command = f"colangevin run four-turn --out {tmp_path} --ray --resume"
    assert f"Stopped and saved. To go on:\n    {command}" in text
    assert not alive(started)
    assert (tmp_path / "four-turn" / "part-1.pt").exists()
    assert not (tmp_path / "four-turn" / "part-1.json").exists()
    assert notes(tmp_path).keys() == begun
    resumed = start_ray(tmp_path, "--resume") if on_ray else start_alone(tmp_path, "--resume")
    status, text = finish(resumed)
    assert status == 0, text
    assert contents(tmp_path / "four-turn") == whole


@pytest.mark.slow
def test_an_error_of_a_job_is_not_tried_again_and_said_as_without_ray(tmp_path):
    status, text = finish(start_ray(tmp_path, "--only", "part 1", hook=failing))
    assert status == 1, text
    assert text.splitlines()[-1] == "Could not write. Make room."
    assert "Traceback" not in text
    ((_, epochs),) = notes(tmp_path)["part 1"].items()
    assert epochs == [1, 2, 3]
