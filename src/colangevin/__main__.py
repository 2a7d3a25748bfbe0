"""The command line, `colangevin` or `python -m colangevin`."""

import io
import sys

__all__ = ["main"]

_ABOUT = {
    "info": "Say which backends are in use on this machine, and why not others.",
    "--version": "Print the version.",
}


def main() -> None:
    """Run the command line.

    `info` and `--version` need torch alone. The rest needs the extra `experiments`. Where it is missing, the
    answer says how to install it.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where a letter cannot be encoded, show "?"
    match sys.argv[1:]:
        case ["info"]:
            from colangevin.info import info

            print(info())
        case ["--version"]:
            from colangevin import __version__

            print(f"colangevin {__version__}")
        case ["info" | "--version" as command, "--help", *_]:
            print(f"Usage: colangevin {command}\n\n{_ABOUT[command]}")
        case ["info" | "--version" as command, word, *_]:
            sys.exit(f"colangevin {command}: got {word!r}, but takes nothing more. Leave it out.")
        case _:
            _experiments()


def _experiments() -> None:
    try:
        from colangevin.experiments.cli import app

        app()
    except ModuleNotFoundError as missing:
        package = str(missing.name).partition(".")[0]
        sys.exit(
            f"The command line needs {package}, which is not installed. It comes with an extra:\n"
            '    pip install "colangevin[experiments]"'
        )


if __name__ == "__main__":
    main()
