"""Signals: stop requests set a flag; before other signals end the process, unfinished files are removed."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ACTIONS: list[Callable[[], object]] = []  # remove unfinished files; newest last


class StopSignals:
    """While entered, signals only set `seen`, and the work stops at its next step. An ignored SIGHUP (nohup) stays ignored."""

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)

    seen = False
    first = 0  # number of the first signal

    def __enter__(self) -> "StopSignals":
        def note(number: int, _frame: FrameType | None) -> None:
            self.seen, self.first = True, self.first or number

        try:
            ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
            self._before = {number: signal.signal(number, note) for number in self.SIGNALS if number not in ignored}
        except ValueError:  # not in the main thread: the caller keeps its handlers
            self._before = {}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def cleanup_on_exit(action: Callable[[], object]) -> Iterator[None]:
    """Run `action`, which removes unfinished files, if a signal ends the process during the body."""
    ACTIONS.append(action)
    try:
        yield
    finally:
        ACTIONS.remove(action)
