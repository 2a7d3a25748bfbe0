"""Optional libraries: imported when they are used. If one is missing, the error names its extra."""

import importlib
from typing import Any

__all__ = ["extra"]


def extra(module: str, purpose: str, name: str = "sampling") -> Any:
    """Import a module of an extra.

    Args:
        module: its name.
        purpose: what it is needed for, as the subject of a sentence.
        name: of the extra.

    Returns:
        The module.

    Raises:
        ModuleNotFoundError: naming the extra, when the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name != library:  # the library is there, but something that it imports is not
            raise
        raise ModuleNotFoundError(
            f'{purpose} needs {library}, which is not installed. Run: pip install "colangevin[{name}]"',
            name=library,
        ) from error
