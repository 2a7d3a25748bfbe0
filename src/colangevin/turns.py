"""Which of the calls that come at every step are due: one of k, after a burn-in."""

__all__ = ["Turns"]


class Turns:
    """Counts calls. After the first ``burn_in`` calls, every k-th is due.

    Args:
        every: k.
        burn_in: how many calls at the beginning are never due.

    Raises:
        ValueError: for a number out of range.

    >>> turns = Turns(every=2, burn_in=1)
    >>> [turns.take() for _ in range(5)]
    [False, False, True, False, True]
    """

    def __init__(self, every: int, burn_in: int) -> None:
        for name, value, least in (("every", every, 1), ("burn_in", burn_in, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}={value!r}: must be a whole number of calls, at least {least}.")
        self.every = every
        self.burn_in = burn_in
        self.calls = 0

    def take(self) -> bool:
        """Count a call, and say whether it is due."""
        self.calls += 1
        return self.due(self.calls)

    def due(self, call: int) -> bool:
        """Whether a call is due. The first call is 1."""
        return call > self.burn_in and (call - self.burn_in) % self.every == 0

    def __str__(self) -> str:
        return f"called {self.calls} times, with burn_in={self.burn_in} and every={self.every}"
