"""The interface by which a solver asks between two slices of its work whether to stop."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Stop:
    """Never stops; `hpcml.run.driver.Driver` stops a run. Methods are collective over the ranks that share the work."""

    @property
    def seconds(self) -> float:
        return 0.0

    def slices(self, parts: Iterable[T]) -> Iterator[T]:
        return iter(parts)


NEVER = Stop()
