"""Libraries that only some users need: imported when they are, and asked for by the name of their extra."""

import importlib
from typing import Any

__all__ = ["extra"]


def extra(module: str, purpose: str) -> Any:
    """A module of the extra ``sampling``.

    Args:
        module: its name.
        purpose: what it is needed for, as the subject of a sentence.

    Returns:
        The module.

    Raises:
        ModuleNotFoundError: naming the extra, when it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name != library:  # something it needs itself
            raise
        raise ModuleNotFoundError(
            f'{purpose} needs {library}, which is not installed. Run: pip install "colangevin[sampling]"',
            name=library,
        ) from error
