import lzma

import pytest

from colangevin.experiments.data import plain_text
from colangevin.experiments.data.sources import DataError

FILES = {f"{name}.c": f"int {name};\n".encode() * 20 for name in ("one", "two", "three", "four", "five")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the text is looked for, empty."""
    monkeypatch.setenv("COLANGEVIN_DATA", str(tmp_path))
    path = tmp_path / "linux-c"
    path.mkdir()
    return path


def loaded():
    return tuple(bytes(text.tolist()) for text in plain_text.load("linux-c"))


def test_a_corpus_that_is_split_is_read_as_it_is(folder):
    (folder / "train.bin").write_bytes(b"\0train\xff")
    (folder / "val.bin").write_bytes(b"val")
    (folder / "README").write_bytes(b"other")
    assert loaded() == (b"\0train\xff", b"val")


def test_a_packed_corpus_is_unpacked_once(folder):
    (folder / "train.bin.xz").write_bytes(lzma.compress(b"train"))
    (folder / "val.bin").write_bytes(b"val")
    (folder / ".train.bin.abc.part").write_bytes(b"tr")  # of a process that was killed
    assert loaded() == (b"train", b"val")
    assert (folder / "train.bin").read_bytes() == b"train"
    assert not list(folder.glob("*.part"))
    (folder / "train.bin.xz").write_bytes(b"is not read again")
    assert loaded() == (b"train", b"val")


def test_a_damaged_pack_is_refused(folder):
    (folder / "train.bin.xz").write_bytes(lzma.compress(b"train")[:-10])
    (folder / "val.bin").write_bytes(b"val")
    with pytest.raises(DataError, match=r"train\.bin\.xz: is not a whole file packed by xz .*Put the text"):
        loaded()
    assert not (folder / "train.bin").exists()


def test_files_of_text_in_any_folder_are_joined_and_split(folder):
    for name, content in FILES.items():
        place = folder / name[0] / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
    (folder / ".hidden").write_bytes(b"hidden")
    train, held_out = loaded()
    parts = [*train.split(b"\0"), *held_out.split(b"\0")]
    assert sorted(parts) == sorted(FILES.values())
    assert held_out in FILES.values()  # one file is more than a fiftieth
    assert loaded() == (train, held_out)


def test_one_file_cannot_be_split(folder):
    (folder / "all.txt").write_bytes(b"text")
    with pytest.raises(DataError, match="has 1 file of text, none of which is left to train on"):
        loaded()


@pytest.mark.parametrize("half", ["nothing", "train.bin", "val.bin"])
def test_without_a_text_the_error_says_what_to_do(folder, half):
    if half != "nothing":
        (folder / half).write_bytes(b"half")
    with pytest.raises(DataError) as error:
        loaded()
    for part in ("not on this machine", str(folder), "train.bin", "val.bin", "COLANGEVIN_DATA", "linux-c/"):
        assert part in str(error.value)


def test_an_unreadable_folder_is_named(folder):
    (folder / "train.bin").mkdir()
    (folder / "train.bin.xz").mkdir()
    (folder / "val.bin").write_bytes(b"val")
    (folder / "text.txt").symlink_to(folder / "nowhere")  # is no file
    with pytest.raises(DataError, match="not on this machine"):
        loaded()


def test_a_file_that_cannot_be_read_is_an_error_of_the_data(folder, monkeypatch):
    for name, content in FILES.items():
        (folder / name).write_bytes(content)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(plain_text.Path, "read_bytes", refuse)
    with pytest.raises(DataError, match=r"linux-c: cannot be read .*Make its files readable"):
        loaded()


def test_pythons_own_library_is_always_there(monkeypatch, tmp_path):
    monkeypatch.setenv("COLANGEVIN_DATA", str(tmp_path))
    train, held_out = plain_text.load("python")
    assert len(train) > 1_000_000
    assert len(held_out) > 20_000
    assert b"def __init__(self" in bytes(train.tolist())
