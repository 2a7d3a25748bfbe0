"""Results that a disk, a kill or a person has damaged: the file is named, and its job runs again."""

import io
import json
import shutil
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

from colangevin.experiments.catalogue.jobs import jobs
from colangevin.experiments.report.results import load
from colangevin.experiments.storage import archives
from colangevin.experiments.storage.disk import DamagedError, StoreError
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.training.runner import run
from tests.experiments.command_line import contents
from tests.experiments.conftest import Nobody
from tests.experiments.small_run import run_all
from tests.experiments.tiny import experiment

pytestmark = pytest.mark.usefixtures("small_grid")

CPU = torch.device("cpu")
WHAT = experiment(parts=2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_all(tmp_path_factory.mktemp("whole"), WHAT)


@pytest.fixture
def copy(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def truncate(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


def flip(path, share):
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 0x10
    path.write_bytes(content)


def resumed(out):
    """What a run with --resume tells."""
    folder, watcher = Folder(out, WHAT.name), Nobody()
    folder.open(WHAT, CPU, ["colangevin"], resume=True)
    assert run(WHAT, folder, CPU, watcher, lambda: False)
    return watcher.told


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: truncate(path, 0.5),
    "all but the end": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "other bytes": lambda path: path.write_bytes(b"PK\x03\x04 or not"),
    "a list": lambda path: path.write_bytes(b"[1, 2]"),
    "deep": lambda path: path.write_bytes(b'{"a":' + b"[" * 100_000),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_a_damaged_file_is_named_and_its_job_is_not_done(copy, suffix, damage):
    DAMAGE[damage](copy / WHAT.name / f"part-1.{suffix}")
    with pytest.raises(DamagedError, match=rf"four-turn/part-1.{suffix} is damaged: .*again with --resume"):
        load(copy)
    assert [Folder(copy, WHAT.name).done(job) for job in jobs(WHAT)] == [False, True]


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_the_job_of_a_damaged_file_alone_runs_again(whole, copy, suffix):
    truncate(copy / WHAT.name / f"part-1.{suffix}", 0.5)
    told = resumed(copy)
    assert told[0][0] == "damaged"
    assert f"part-1.{suffix} is damaged" in told[0][1]
    assert [words for words in told if words[0] == "begin"] == [("begin", "part 1", 0)]
    assert contents(copy / WHAT.name) == contents(whole / WHAT.name)
    assert load(copy)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_one_wrong_bit_in_the_arrays_is_found(copy, share):
    folder, job = Folder(copy, WHAT.name), jobs(WHAT)[0]
    before = folder.read(job)[1]
    flip(folder.file(job, "npz"), share)
    try:
        after = folder.read(job)[1]
    except DamagedError:
        assert not folder.done(job)
    else:  # a date, which says nothing of the arrays
        assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)


def test_arrays_that_are_gone_are_missed(copy):
    (copy / WHAT.name / "part-2.npz").unlink()
    with pytest.raises(DamagedError, match=r"part-2.npz is damaged: there is no such file"):
        load(copy)
    assert not Folder(copy, WHAT.name).done(jobs(WHAT)[1])


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_json_is_named_and_nothing_is_overwritten(copy, damage):
    DAMAGE[damage](copy / WHAT.name / "run.json")
    before = contents(copy / WHAT.name)
    for attempt in (load, resumed):
        with pytest.raises(StoreError, match=r"four-turn/run.json cannot be read as results: .*whole copy"):
            attempt(copy)
    assert contents(copy / WHAT.name) == before


def test_results_without_run_json_are_not_taken_for_ours(copy):
    (copy / WHAT.name / "run.json").unlink()
    for resume in (False, True):
        with pytest.raises(StoreError, match=r"has part-1.json but no run.json, which says what it was made"):
            Folder(copy, WHAT.name).open(WHAT, CPU, ["colangevin"], resume=resume)
    assert not (copy / WHAT.name / "run.json").exists()


def test_what_a_kill_left_of_a_job_that_is_done_is_removed(whole, copy):
    for name in ("part-1.pt", ".part-1.lock"):
        (copy / WHAT.name / name).write_bytes(b"")
    assert resumed(copy) == []
    assert contents(copy / WHAT.name) == contents(whole / WHAT.name)


# ---- checkpoints ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def half_way(tmp_path_factory):
    """A folder with a checkpoint after the second epoch."""
    folder, asked = Folder(tmp_path_factory.mktemp("half"), WHAT.name), iter(range(1, 100))
    folder.open(WHAT, CPU, ["colangevin"], resume=False)
    assert not run(WHAT, folder, CPU, Nobody(), lambda: next(asked) == 2)
    return folder.path.parent


@pytest.fixture
def stopped(half_way, tmp_path):
    shutil.copytree(half_way, tmp_path / "stopped")
    return tmp_path / "stopped"


@pytest.mark.parametrize("damage", [*(name for name in DAMAGE if name != "deep"), "one bit"])
def test_a_damaged_checkpoint_is_named(stopped, damage):
    path = stopped / WHAT.name / "part-1.pt"
    {**DAMAGE, "one bit": lambda path: flip(path, 0.5)}[damage](path)
    with pytest.raises(DamagedError, match=r"part-1.pt is damaged: "):
        Folder(stopped, WHAT.name).load_checkpoint(jobs(WHAT)[0])


def test_the_job_of_a_damaged_checkpoint_starts_again(whole, stopped):
    truncate(stopped / WHAT.name / "part-1.pt", 0.5)
    told = resumed(stopped)
    assert told[0][0] == "damaged"
    assert "part-1.pt is damaged" in told[0][1]
    assert told[1] == ("begin", "part 1", 0)
    assert contents(stopped / WHAT.name) == contents(whole / WHAT.name)


def test_a_checkpoint_that_unpacks_to_more_than_it_has_is_refused(stopped):
    path = stopped / WHAT.name / "part-1.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("part-1/data.pkl", bytes(10_000_000))
    with pytest.raises(DamagedError, match=r"it is compressed, which no checkpoint is"):
        Folder(stopped, WHAT.name).load_checkpoint(jobs(WHAT)[0])


class Planted:
    def __reduce__(self):
        return print, ("a pickle ran",)


def test_no_pickle_runs_in_a_checkpoint(stopped, capsys):
    torch.save({"training": Planted()}, stopped / WHAT.name / "part-1.pt")
    with pytest.raises(DamagedError, match=r"part-1.pt is damaged: "):
        Folder(stopped, WHAT.name).load_checkpoint(jobs(WHAT)[0])
    assert capsys.readouterr().out == ""


# ---- files that would take all memory ------------------------------------------------------------


def npy(shape, dtype="<f4", data=b""):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return header.getvalue() + data


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


@pytest.fixture
def little_memory():
    """A test that takes more than 60 MB fails."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60_000_000


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("shape", [(10**12,), (2**40, 2**40), (10**6, 10**6, 3), (-1, -5)])
def test_a_header_that_claims_more_than_there_is_is_refused(copy, shape):
    path = copy / WHAT.name / "part-1.npz"
    npz(path, test_loss=npy(shape, data=bytes(20)))
    with pytest.raises(DamagedError, match=r"part-1.npz is damaged: "):
        load(copy)
    assert not Folder(copy, WHAT.name).done(jobs(WHAT)[0])


@pytest.mark.usefixtures("little_memory")
def test_arrays_that_unpack_to_too_much_are_refused_before(copy, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 20_000_000)
    path = copy / WHAT.name / "part-1.npz"
    npz(path, test_loss=npy((5_000_000,), data=bytes(20_000_000)))
    assert path.stat().st_size < 30_000
    with pytest.raises(DamagedError, match=r"it claims 20,000,128 bytes of arrays; at most 20,000,000 are"):
        load(copy)


@pytest.mark.usefixtures("little_memory")
def test_a_member_that_unpacks_to_more_than_it_claims_is_refused(copy):
    path = copy / WHAT.name / "part-1.npz"
    npz(path, test_loss=npy((50_000_000,), data=bytes(200_000_000)))
    packed = path.read_bytes()
    true, false = (number.to_bytes(4, "little") for number in (200_000_128, 1128))
    assert packed.count(true) == 2
    path.write_bytes(packed.replace(true, false))
    tracemalloc.reset_peak()
    with pytest.raises(DamagedError, match=r"part-1.npz is damaged: Bad CRC-32"):
        load(copy)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"runs": 10**9},
            r"experiment: runs 1,000,000,000 .*at most 100,000 fit in one folder. Choose fewer",
        ),
        ({"runs": 10**4, "epochs": 10**9, "points": 10**9}, r"160,000 trainings"),
        ({"runs": 0}, r"runs, epochs and points must be at least 1"),
        ({"runs": "many"}, r"experiment.runs is 'many'; it must be of type int"),
        ({"runs": True}, r"experiment.runs is True; it must be of type int"),
    ],
)
def test_a_run_json_that_claims_too_much_is_refused(copy, change, message):
    path = copy / WHAT.name / "run.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["experiment"].update(change)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(StoreError, match=rf"run.json cannot be read as results: .*{message}"):
        load(copy)


def test_no_pickle_is_read_from_arrays(copy):
    path = copy / WHAT.name / "part-1.npz"
    with path.open("wb") as file:
        np.savez(file, test_loss=np.array([Planted()], dtype=object), allow_pickle=True)
    with pytest.raises(DamagedError, match=r"has elements of type object, not numbers"):
        load(copy)


def test_all_arrays_together_are_bounded(copy, monkeypatch):
    from colangevin.experiments.report import gathering

    monkeypatch.setattr(gathering, "MOST_BYTES", 5_000)
    with pytest.raises(StoreError, match=r"part-1.npz .*the report would need more than 5,000 bytes of arr"):
        load(copy)
