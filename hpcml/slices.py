"""Long work on rows in slices: between two of them a rank looks whether it is to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hpcml.errors import Interrupted

if TYPE_CHECKING:
    from hpcml.signals import StopSignals

SLICE_VALUES = 1 << 20  # of a slice: well below half a second, even if they come from a disk
ROW_VALUES = 64  # what a row costs beside its values

Look = Callable[[], None]  # raises what ends the work


def never_stop() -> None:
    """Never stop."""


def stop_at(signals: StopSignals, doing: str) -> Look:
    """What raises Interrupted after a signal, where nothing is written yet; `doing`: a gerund."""

    def look() -> None:
        if signals.seen:
            raise Interrupted(f"a signal arrived while {doing}; nothing is lost: run the same command again")

    return look


def rows_in_slice(n_rows: int, n_values: int) -> int:
    """How many rows make a slice, if `n_rows` have `n_values` values."""
    return max(1, SLICE_VALUES * n_rows // max(1, n_values + ROW_VALUES * n_rows))


def is_long(n_values: int, n_ranks: int) -> bool:
    """Whether a pass of so many ranks over so many values is long enough to be left."""
    return n_values > SLICE_VALUES * n_ranks


def row_slices(n_rows: int, n_values: int) -> Iterator[slice]:
    """Consecutive slices of 0 .. n_rows − 1 of about SLICE_VALUES, for `n_values` values."""
    step = rows_in_slice(n_rows, n_values)
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))
