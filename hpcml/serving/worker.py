"""The scoring thread. It scores the texts of all waiting requests together, which is faster than one by one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

# Texts scored together, unless a single request has more.
BATCH_SIZE = 32


class Worker:
    """A thread that calls `work` for items of other threads, in their order. An error goes to all requests of the batch."""

    def __init__(self, work: Callable[[Sequence[Any]], Sequence[Any]], max_waiting: int) -> None:
        self.work, self.max_waiting = work, max_waiting
        self._waiting: deque[tuple[Sequence[Any], Future[Any]]] = deque()
        self._stopping, self._changed = False, threading.Condition()
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread accepts items."""
        return self._thread.is_alive() and not self._stopping

    def submit(self, items: Sequence[Any]) -> Future[Any] | None:
        """Return the future results of items; None if too many are waiting."""
        with self._changed:
            self._waiting = deque((each, future) for each, future in self._waiting if not future.cancelled())
            n_waiting = sum(len(each) for each, _ in self._waiting)
            if self._stopping or (n_waiting > 0 and n_waiting + len(items) > self.max_waiting):
                return None
            self._waiting.append((items, future := Future[Any]()))
            self._changed.notify()
        return future

    def stop(self) -> None:
        """Accept no more items and cancel those that are waiting."""
        with self._changed:
            self._stopping = True
            for _, future in self._waiting:
                future.cancel()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if self._stopping:
                    return
                batch = [self._waiting.popleft()]
                size = len(batch[0][0])
                while self._waiting and size + len(self._waiting[0][0]) <= BATCH_SIZE:
                    batch.append(self._waiting.popleft())
                    size += len(batch[-1][0])
            batch = [(items, future) for items, future in batch if future.set_running_or_notify_cancel()]
            if not batch:
                continue
            try:
                results = self.work([item for items, _ in batch for item in items])
            except Exception as error:  # noqa: BLE001 - the error is raised where the result is awaited
                for _, future in batch:
                    future.set_exception(error)
                continue
            begin = 0
            for items, future in batch:
                future.set_result(results[begin : begin + len(items)])
                begin += len(items)
