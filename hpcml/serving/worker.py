"""The thread that scores texts: those of all requests that wait together, which costs less."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

TOGETHER = 32  # texts that are scored together, unless one request alone has more


class Worker:
    """Does `work` on items of other threads, in their order; a failure is that of all together."""

    def __init__(self, work: Callable[[Sequence[Any]], Sequence[Any]], most: int) -> None:
        """`most` items may wait."""
        self.work, self.most = work, most
        self._waiting: deque[tuple[Sequence[Any], Future[Any]]] = deque()
        self._ends, self._changed = False, threading.Condition()
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)
        self._thread.start()

    @property
    def lives(self) -> bool:
        """Whether it takes items."""
        return self._thread.is_alive() and not self._ends

    def submit(self, items: Sequence[Any]) -> Future[Any] | None:
        """Return the future results of items; None if too many wait. A cancelled one is not done."""
        with self._changed:
            self._waiting = deque((some, future) for some, future in self._waiting if not future.cancelled())
            n_waiting = sum(len(some) for some, _ in self._waiting)
            if self._ends or (n_waiting > 0 and n_waiting + len(items) > self.most):
                return None
            self._waiting.append((items, future := Future[Any]()))
            self._changed.notify()
        return future

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
                taken = [self._waiting.popleft()]
                size = len(taken[0][0])
                while self._waiting and size + len(self._waiting[0][0]) <= TOGETHER:
                    taken.append(self._waiting.popleft())
                    size += len(taken[-1][0])
            taken = [(items, future) for items, future in taken if future.set_running_or_notify_cancel()]
            if not taken:
                continue
            try:
                results = self.work([item for items, _ in taken for item in items])
            except Exception as error:  # noqa: BLE001 - whoever waits for the result gets it
                for _, future in taken:
                    future.set_exception(error)
                continue
            begin = 0
            for items, future in taken:
                future.set_result(results[begin : begin + len(items)])
                begin += len(items)
