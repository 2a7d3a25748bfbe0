"""Files of arrays: what is written is read back, however it is compressed, and nothing else is."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from colangevin.experiments.storage.archives import read_arrays, write_arrays

ARRAYS = {
    "curve": np.linspace(0, 1, 1000, dtype=np.float32).reshape(2, 5, 100),
    "picture": np.arange(256, dtype=np.uint8).repeat(8),
    "empty": np.zeros((0, 3)),
    "number": np.array(7),
}


def assert_same(found: dict[str, np.ndarray]) -> None:
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_arrays_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    path.write_bytes(write_arrays(ARRAYS))
    assert_same(read_arrays(path))
    with np.load(path) as found:
        assert_same(dict(found))


def test_the_same_arrays_are_the_same_bytes() -> None:
    assert write_arrays(ARRAYS) == write_arrays(ARRAYS)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_files_of_numpy_are_read(tmp_path: Path, save: object) -> None:
    """Those of earlier versions, which NumPy compressed."""
    path = tmp_path / "arrays.npz"
    save(path, **ARRAYS)
    assert_same(read_arrays(path))


def test_another_compression_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("curve.npy", b"anything")
    with pytest.raises(ValueError, match=r"'curve.npy' is compressed in an unknown way"):
        read_arrays(path)


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7])
def test_a_changed_byte_is_found(tmp_path: Path, place: float) -> None:
    content = bytearray(write_arrays(ARRAYS))
    content[int(place * len(content))] ^= 0xFF
    path = tmp_path / "arrays.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"CRC|[Cc]orrupt|cut short|differ"):
        read_arrays(path)
