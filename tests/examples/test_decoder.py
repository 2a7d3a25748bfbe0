"""The decoder on several ranks: saved by four, taken up by two, and with a rank that dies in a save."""

import os
import re
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from tests.ranks import run_ranks

ROOT = Path(__file__).parents[2]
# Four ranks sum the gradients of a batch in another order than two. Six steps make 1e-7 of that.
TOLERANCE = 1e-5


def torchrun(ranks, module, *words):
    """The output of a job; one that fails or hangs fails the test, and leaves no process behind."""
    job = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *module]
        + [str(word) for word in words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = job.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        raise
    assert job.returncode == 0, errors
    return output


def lines(output):
    """What a job says: where it goes on, and the loss after each step that it saved."""
    taken_up = re.findall(r"^goes on at step (\d+) with (\d+) ranks$", output, re.MULTILINE)
    losses = re.findall(r"^step (\d+): loss (\S+)$", output, re.MULTILINE)
    return [(int(step), int(ranks)) for step, ranks in taken_up], {int(s): float(loss) for s, loss in losses}


def uninterrupted(rank, module, folder):
    torch.distributed.barrier()
    import_module(module).train(6, 6, Path(folder), torch.device("cpu"))


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=TOLERANCE)


def test_ddp_goes_on_with_fewer_ranks(tmp_path):
    module = "examples.decoder_ddp"
    torchrun(4, ["-m", module], "--steps", 2, "--every", 2, "--folder", tmp_path / "a")
    output = torchrun(2, ["-m", module], "--steps", 6, "--every", 2, "--folder", tmp_path / "a")
    taken_up, losses = lines(output)
    assert taken_up == [(2, 2)]
    assert list(losses) == [4, 6]
    run_ranks(uninterrupted, 2, module, str(tmp_path / "b"))
    found, expected = (torch.load(tmp_path / each / "checkpoint.pt", weights_only=True) for each in "ab")
    assert found["step"] == expected["step"] == 6
    assert_close(found["model"], expected["model"])


def saved(folder, file):
    """The weights of a sharded checkpoint."""
    dcp_to_torch_save(folder, file)
    return torch.load(file, weights_only=False)["model"]


def test_fsdp_goes_on_with_fewer_ranks_and_after_the_death_of_one_in_a_save(tmp_path):
    module = "examples.decoder_fsdp"
    options = ("--every", 2, "--folder", tmp_path / "a", "--steps")
    torchrun(4, ["-m", module], *options, 2)
    output = torchrun(2, ["--max-restarts=1", "-m", "tests.examples.dies_in_a_save"], *options, 6)
    taken_up, losses = lines(output)
    # four ranks saved step 2. Two took it up and saved step 4; one of them died while they saved step 6
    assert taken_up == [(2, 2), (4, 2)]
    assert list(losses) == [4, 6]
    assert [path.name for path in sorted((tmp_path / "a").iterdir())] == ["step-00000004", "step-00000006"]
    run_ranks(uninterrupted, 2, module, str(tmp_path / "b"))
    found, expected = (saved(tmp_path / each / "step-00000006", tmp_path / f"{each}.pt") for each in "ab")
    assert_close(found, expected)
