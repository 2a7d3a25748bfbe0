import sys

import pytest
import torch

from benchmarks import imports, run
from benchmarks.measure import Budget
from benchmarks.noise import NORMALS, RANDN
from benchmarks.sheet import load, load_machine

PEERS = {"geoopt": "geoopt", "geotorch": "geotorch", "pogo": "pogo-torch"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for module in PEERS:
            for loaded in [name for name in sys.modules if name.split(".")[0] == module]:
                patch.delitem(sys.modules, loaded)
            patch.setitem(sys.modules, module, None)  # what Python takes for "cannot be imported"
        folder = tmp_path_factory.mktemp("results")
        run.main(["--device", "cpu", "--quick", "--out", str(folder), "--commit", "abc"])
    return folder


def test_every_contender_has_a_row(folder):
    rows = [row for row in load(folder / "cpu.csv") if row.workload == "small kernels"]
    methods = [row.method for row in rows]
    assert len(methods) == len(set(methods)) == 13
    assert {row.library for row in rows} == {"colangevin", "torch", *PEERS.values()}


def test_a_missing_library_is_reported(folder):
    rows = [row for row in load(folder / "cpu.csv") if row.library in PEERS.values()]
    assert rows
    assert all(row.note == "not installed" and row.median_ms is None for row in rows)


def test_what_ran_has_times_ratio_and_state(folder):
    rows = [row for row in load(folder / "cpu.csv") if row.library in ("colangevin", "torch")]
    rows = [row for row in rows if row.workload != imports.NAME]
    assert {row.workload for row in rows if row.library == "colangevin"} >= {"small", "small kernels"}
    for row in rows:
        assert row.note.startswith("error over") or not row.note, row
        assert 0 < row.q20_ms <= row.median_ms <= row.q80_ms
        assert row.repeats >= 1
        assert row.ratio_to_sgd > 0
        assert row.state_bytes_per_weight >= 4 or row.method in (RANDN.method, NORMALS.method)


def test_an_import_is_compared_with_that_of_torch(folder):
    torchs, ours = (row for row in load(folder / "cpu.csv") if row.workload == imports.NAME)
    assert (torchs.library, ours.library) == ("torch", "colangevin")
    assert torchs.ratio_to_sgd == 1
    assert ours.ratio_to_sgd == pytest.approx(ours.median_ms / torchs.median_ms, rel=1e-4)


def test_a_library_that_cannot_be_imported_has_a_row_that_says_so(monkeypatch):
    monkeypatch.setattr(imports, "_LIBRARIES", ("json", "no_such_module_anywhere"))
    there, missing = imports.measure_imports(Budget(0.0, 60.0, 1))
    assert there.median_ms > 0
    assert missing.median_ms is None
    assert missing.note.startswith("failed: CalledProcessError")


def test_constrained_methods_report_their_error(folder):
    rows = {(row.workload, row.method): row for row in load(folder / "cpu.csv")}
    assert rows["small kernels", "orthogonal"].error < 5e-6
    assert rows["small kernels", "orthogonal"].note == "error over 5 steps"
    assert rows["small", "circle"].error < 5e-6
    assert rows["small layer", "simplex rows"].error < 5e-6
    assert rows["small", "SGD-m, fused"].error is None
    assert rows["small", "free"].error is None


def test_the_machine_is_remembered(folder):
    machine = load_machine(folder / "cpu.json")
    assert machine["torch"] == torch.__version__
    assert machine["commit"] == "abc"
    assert machine["copy_gb_per_s"] > 0
    assert machine["device"]


def test_sections_after_the_limit_are_said_to_be_missing(tmp_path, capsys):
    run.main(["--quick", "--limit", "0", "--out", str(tmp_path)])
    rows = load(tmp_path / "cpu.csv")
    assert len(rows) == 13
    assert all(row.note == "not run: the limit of 0 s was reached" for row in rows)
    assert "not run" in capsys.readouterr().out


def test_a_section_that_raises_loses_only_itself():
    def broken():
        raise RuntimeError("out of luck\nsecond line")

    (row,) = run._isolated("some work", broken)
    assert (row.workload, row.note) == ("some work", "failed: RuntimeError: out of luck")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_a_device_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"--device cuda: torch sees no CUDA device here; use --device cpu"):
        run.main(["--device", "cuda", "--out", str(tmp_path)])
