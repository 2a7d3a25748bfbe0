"""The decoder on several ranks: saved by four, taken up by two, and with a rank that dies in a save."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from tests.ranks import run_ranks

ROOT = Path(__file__).parents[2]
# Four ranks sum the gradients of a batch in another order than two: 1.8e-7 after six steps, where measured.
TOLERANCE = 2e-6


def torchrun(ranks, module, *words):
    """Exit code and output of a job; one that hangs fails the test, and leaves no process behind."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    job = subprocess.Popen(
        [*launcher, "-m", module, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with job:
        try:
            output, errors = job.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            job.terminate()  # torchrun then ends the ranks, which have process groups of their own
            raise
    print(errors)  # which pytest shows if the test fails
    return job.returncode, output


def said(output):
    """Where a job went on, with how many ranks, and the steps that it saved with a finite loss."""
    taken_up = re.findall(r"^goes on at step (\d+) with (\d+) ranks$", output, re.MULTILINE)
    losses = re.findall(r"^step (\d+): loss (\d\.\d+)$", output, re.MULTILINE)
    return [(int(step), int(ranks)) for step, ranks in taken_up], [int(step) for step, _ in losses]


def train(rank, module, steps, folder):
    """As one rank of several, in the processes of the tests: they start faster than torchrun's."""
    import_module(module).train(steps, steps, Path(folder), torch.device("cpu"))


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=TOLERANCE)


def test_ddp_goes_on_with_fewer_ranks(tmp_path):
    module = "examples.decoder_ddp"
    run_ranks(train, 4, module, 2, str(tmp_path / "a"))
    code, output = torchrun(2, module, "--steps", 6, "--every", 2, "--folder", tmp_path / "a")
    assert code == 0
    assert said(output) == ([(2, 2)], [4, 6])
    run_ranks(train, 2, module, 6, str(tmp_path / "b"))
    found, expected = (torch.load(tmp_path / each / "checkpoint.pt", weights_only=True) for each in "ab")
    assert found["step"] == expected["step"] == 6
    assert_close(found["model"], expected["model"])


def saved(folder, file):
    """The weights of a sharded checkpoint."""
    dcp_to_torch_save(folder, file)
    return torch.load(file, weights_only=False)["model"]


def test_fsdp_goes_on_with_fewer_ranks_and_after_the_death_of_one_in_a_save(tmp_path):
    module, folder = "examples.decoder_fsdp", tmp_path / "a"
    run_ranks(train, 4, module, 2, str(folder))
    code, output = torchrun(
        2, "tests.examples.dies_in_a_save", "--steps", 6, "--every", 2, "--folder", folder
    )
    assert code != 0
    # two ranks took up what four had saved, and saved step 4. One of them died while they saved step 6
    assert said(output) == ([(2, 2)], [4])
    left = folder / "step-00000006.part"
    assert left.is_dir()
    assert (left / "__1_0.distcp").stat().st_size > 0
    assert not (left / ".metadata").exists()
    run_ranks(train, 2, module, 6, str(folder))
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000004", "step-00000006"]
    run_ranks(train, 2, module, 6, str(tmp_path / "b"))
    found, expected = (saved(tmp_path / each / "step-00000006", tmp_path / f"{each}.pt") for each in "ab")
    assert_close(found, expected)
