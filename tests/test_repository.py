"""What the repository holds: what a person wrote or a machine cannot make again, and little of it."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_BYTES = 14_000_000  # 8.9 million of them are results


def test_tracked_files_stay_small():
    try:
        answer = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a git checkout")
    paths = [ROOT / name for name in answer.stdout.decode().split("\0") if name]
    assert sum(path.lstat().st_size for path in paths if path.is_file()) < MOST_BYTES
