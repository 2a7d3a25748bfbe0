"""Signals that ask a run to stop: the first one to finish the epoch and save, the second to stop at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Interrupts", "noted"]

# Windows has no SIGHUP
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupts:
    """What was received so far."""

    def __init__(self) -> None:
        self._received: int | None = None
        # standard output and errors, where they are terminals
        self._terminals = [number for number in (1, 2) if os.isatty(number)]

    def __call__(self) -> bool:
        """Whether to save and stop."""
        return self._received is not None

    @property
    def status(self) -> int:
        """The exit status of a process that a signal ended, as shells have it."""
        return 128 + (self._received or signal.SIGINT)

    def note(self, number: int, _: object) -> None:
        """Handle a signal.

        Args:
            number: of the signal.

        Raises:
            KeyboardInterrupt: when it is not the first.
        """
        for terminal in self._terminals:
            # Writing to a terminal that was closed would end the run before it is saved.
            if not os.isatty(terminal):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, terminal)
                os.close(nowhere)
        again, self._received = self(), number
        if again:
            raise KeyboardInterrupt


@contextmanager
def noted() -> Iterator[Interrupts]:
    """Note signals for a while instead of ending by them.

    A SIGTERM or SIGHUP that is ignored, as under nohup, stays ignored. Python hears of signals in its main
    thread alone; elsewhere nothing is noted.

    Yields:
        What was received.
    """
    interrupts = Interrupts()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, interrupts.note)
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
