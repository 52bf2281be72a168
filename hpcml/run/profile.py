"""Seconds of a run by phase: each second counts once, for the innermost phase that was running."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from hpcml import loading


class Profile:
    """The clock of a rank. Time outside all phases counts as "other"; that before the clock started, in the program, as "start"."""

    def __init__(self) -> None:
        self._phase, self._since = "other", time.perf_counter()
        self.seconds = {"start": self._since - loading.began if loading.in_program else 0.0}

    def _change(self, phase: str) -> str:
        before, now = self._phase, time.perf_counter()
        self.seconds[before] = self.seconds.get(before, 0.0) + now - self._since
        self._phase, self._since = phase, now
        return before

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        before = self._change(phase)
        try:
            yield
        finally:
            self._change(before)

    def read(self) -> dict[str, float]:
        """Return the seconds of each phase up to now, and their sum."""
        self._change(self._phase)
        return {**self.seconds, "total": sum(self.seconds.values())}
