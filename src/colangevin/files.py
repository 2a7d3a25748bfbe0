"""Files that are written whole or not at all."""

import os
from pathlib import Path

__all__ = ["HALF", "write_whole"]

#: ending of the temporary file that is being written, which a kill leaves behind
HALF = ".part"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that at every moment the old or the new content is there whole, even after a kill.

    The content is written to a temporary file, ``.name.xxxxxxxx.part`` beside the file, which then replaces
    the file. A kill leaves the temporary file. Of several processes that write the same file, the last wins.

    Args:
        path: of the file, in a folder that exists.
        content: of the whole file.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}{HALF}")
    # "x" fails if the name exists: no file of another writer is written to, and no planted link is followed
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
