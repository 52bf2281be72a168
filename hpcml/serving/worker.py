"""The one thread that scores texts: all that have come meanwhile together, which costs less."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

TOGETHER = 32  # texts that are scored together, unless one request alone has more
Work = Callable[[Sequence[Any]], Sequence[Any]]


class Worker:
    """Does `work` on items of other threads, in their order; a failure is that of all together."""

    def __init__(self, work: Work, most: int) -> None:
        """`most` items may wait."""
        self.work, self.most = work, most
        self._waiting: deque[tuple[Sequence[Any], Future[Any]]] = deque()
        self._n_waiting, self._ends = 0, False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)
        self._thread.start()

    @property
    def lives(self) -> bool:
        """Whether it takes items."""
        return self._thread.is_alive() and not self._ends

    def submit(self, items: Sequence[Any]) -> Future[Any] | None:
        """The future results of items; None if too many wait. A cancelled one is not done."""
        future: Future[Any] = Future()
        with self._changed:
            if self._is_full(items):
                self._forget_cancelled()
            if self._ends or self._is_full(items):
                return None
            self._waiting.append((items, future))
            self._n_waiting += len(items)
            self._changed.notify()
        return future

    def _is_full(self, items: Sequence[Any]) -> bool:
        return self._n_waiting > 0 and self._n_waiting + len(items) > self.most

    def _forget_cancelled(self) -> None:
        """Nobody waits for these any more, so they take no place."""
        self._waiting = deque((items, future) for items, future in self._waiting if not future.cancelled())
        self._n_waiting = sum(len(items) for items, _ in self._waiting)

    def end(self) -> None:
        """Take no more items; those that wait are cancelled."""
        with self._changed:
            self._ends = True
            for _, future in self._waiting:
                future.cancel()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ends)
                if self._ends:
                    return
                taken = self._take()
            taken = [(items, future) for items, future in taken if future.set_running_or_notify_cancel()]
            if taken:
                self._do(taken)

    def _take(self) -> list[tuple[Sequence[Any], Future[Any]]]:
        """The next requests: one, and others as long as they are TOGETHER items at most."""
        taken = [self._waiting.popleft()]
        size = len(taken[0][0])
        while self._waiting and size + len(self._waiting[0][0]) <= TOGETHER:
            taken.append(self._waiting.popleft())
            size += len(taken[-1][0])
        self._n_waiting -= size
        return taken

    def _do(self, taken: list[tuple[Sequence[Any], Future[Any]]]) -> None:
        try:
            results = self.work([item for items, _ in taken for item in items])
        except Exception as error:  # noqa: BLE001 - whoever waits for the result gets it
            for _, future in taken:
                future.set_exception(error)
            return
        begin = 0
        for items, future in taken:
            future.set_result(results[begin : begin + len(items)])
            begin += len(items)
