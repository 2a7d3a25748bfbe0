"""Files from the network, all of a file in memory."""

import urllib.request
from collections.abc import Callable
from http.client import HTTPException

__all__ = ["Progress", "fetch"]

#: told the name of a file, the bytes that have come and those there are
Progress = Callable[[str, int, int], None]


def fetch(url: str, progress: Progress | None) -> bytes:
    """The contents of a URL.

    Args:
        url: where it is.
        progress: told how it goes.

    Returns:
        What came.

    Raises:
        OSError: when it cannot be had.
    """
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            length = answer.headers.get("Content-Length") or ""
            total = int(length) if length.isdecimal() else 0
            content = bytearray()
            while piece := answer.read(1 << 16):
                content += piece
                if progress is not None:
                    progress(url.rsplit("/", 1)[-1], len(content), total)
    except HTTPException as error:  # the answer broke off or is not HTTP
        raise OSError(f"{type(error).__name__}: {error}") from error
    return bytes(content)
