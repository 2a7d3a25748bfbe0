"""Files that are written whole or not at all."""

import os
import secrets
from pathlib import Path

__all__ = ["HALF", "write_whole"]

#: ending of a file that is being written; a kill leaves one behind
HALF = ".part"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that at every moment, killed or not, either the old or the new one is there.

    Several processes may write the same file: the last one's is there in the end, and never a mixture. What a
    kill leaves is hidden and named after the file: ``.name.xxxxxxxx.part``.

    Args:
        path: of the file, in a folder that exists.
        content: all of it.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{HALF}")
    # "x" makes the file anew or fails: another writer's file is not shared, a planted link not followed
    file = temporary.open("xb")
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
