"""Batches of CIFAR-10 in other layouts, brought to the official binary one."""

import io
import lzma
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RECORD", "SIDE", "from_python", "unpack"]

Array = NDArray[Any]

#: of an image, in pixels
SIDE = 32
#: bytes of an image in the binary layout: a label, then the red, green and blue plane, each row by row
RECORD = 1 + 3 * SIDE * SIDE


class _Plain(pickle.Unpickler):
    """Reads what the official Python layout holds, dictionaries and arrays, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"_reconstruct": np.empty(0).__reduce__()[0], "ndarray": np.ndarray, "dtype": np.dtype}
        if module.split(".")[0] == "numpy" and name in known:
            return known[name]
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def from_python(content: bytes) -> bytes:
    """A file of the official Python layout in the binary one."""
    batch = _Plain(io.BytesIO(content), encoding="bytes").load()
    labels = np.array(batch[b"labels"], np.uint8)
    records: Array = np.concatenate([labels[:, None], batch[b"data"]], axis=1)
    return records.tobytes()


def unpack(content: bytes) -> bytes:
    """A packed batch in the binary layout: all labels, then what a prediction of each pixel missed, under xz.

    A pixel is predicted from its neighbours W, N and NW by the median of W, N and W + N - NW, in planes of
    G, R - G and B - G that are shifted by 128 and, as everything, taken modulo 256.

    Args:
        content: of a ``.medxz`` file.

    Returns:
        The records.
    """
    raw = np.frombuffer(lzma.decompress(content), np.uint8)
    count = len(raw) // RECORD
    labels = raw[:count]
    # rows and columns first: the loops below walk along them
    missed = raw[count:].reshape(3, count, SIDE, SIDE).transpose(2, 3, 0, 1).astype(np.int16)
    planes = np.zeros((SIDE + 1, SIDE + 1, 3, count), np.int16)  # with a row and a column before the first
    for i in range(1, SIDE + 1):
        for j in range(1, SIDE + 1):
            W, N, NW = planes[i, j - 1], planes[i - 1, j], planes[i - 1, j - 1]
            if i == 1:
                predicted = W
            elif j == 1:
                predicted = N
            else:
                low, high = np.minimum(W, N), np.maximum(W, N)
                predicted = np.clip(W + N - NW, low, high)
            planes[i, j] = (missed[i - 1, j - 1] + predicted) & 255
    G, RG, BG = ((planes[1:, 1:] + 128) & 255).astype(np.uint8).transpose(2, 3, 0, 1)
    pixels = np.stack([RG + G, G, BG + G], axis=1).reshape(count, -1)
    records: Array = np.concatenate([labels[:, None], pixels], axis=1)
    return records.tobytes()
