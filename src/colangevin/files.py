"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["HALF", "written_whole"]

#: ending of a file that is being written; a kill leaves one behind
HALF = ".part"


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes the file itself once everything is on the disk.

    At every moment, killed or not, either the old file or the new one is there. When the block raises, the
    old one is.

    Args:
        path: of the file, in a folder that exists.

    Yields:
        Where to write it.
    """
    temporary = path.with_name(f".{path.name}{HALF}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
