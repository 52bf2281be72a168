"""Files that are removed if this process is ended in the middle of making them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

ACTIONS: list[Callable[[], object]] = []  # the newest last


@contextmanager
def undone(action: Callable[[], object]) -> Iterator[None]:
    """In the body, `action` removes what is unfinished before a signal ends the process."""
    ACTIONS.append(action)
    try:
        yield
    finally:
        ACTIONS.remove(action)
