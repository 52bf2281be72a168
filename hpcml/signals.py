"""Signals: those that ask a run to stop set a flag; before others end the process, unfinished files are removed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ACTIONS: list[Callable[[], object]] = []  # that remove unfinished files; the newest last


class StopSignals:
    """While entered, signals only set `seen`; the loop stops at its next step.

    A SIGHUP that is ignored (nohup) stays so.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)

    seen = False
    first = 0  # the number of the first one

    def __enter__(self) -> StopSignals:
        def note(number: int, _frame: FrameType | None) -> None:
            self.seen, self.first = True, self.first or number

        try:
            kept = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
            self._before = {number: signal.signal(number, note) for number in self.SIGNALS if number not in kept}
        except ValueError:  # not in the main thread: signals stay with the caller
            self._before = {}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        """From now on further ones do nothing: the process is about to end."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def undone(action: Callable[[], object]) -> Iterator[None]:
    """In the body, `action` removes what is unfinished before a signal ends the process."""
    ACTIONS.append(action)
    try:
        yield
    finally:
        ACTIONS.remove(action)
