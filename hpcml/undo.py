"""Files that are removed if this process is ended in the middle of making them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

ACTIONS: list[Callable[[], object]] = []  # the newest last


@contextmanager
def undone(action: Callable[[], object]) -> Iterator[None]:
    """In the body, `action` is what is done before a signal ends the process: it removes what is
    unfinished.
    """
    ACTIONS.append(action)
    try:
        yield
    finally:
        ACTIONS.remove(action)
