"""Slices of rows, between which a rank checks whether to stop."""

from collections.abc import Callable, Iterator

from hpcml.errors import Interrupted
from hpcml.signals import StopSignals

SLICE_VALUES = 1 << 20  # values of a slice: well below half a second, even from a disk
ROW_VALUES = 64  # cost of a row, in values, in addition to its values

StopCheck = Callable[[], None]  # raises an exception to stop the work


def no_stop_check() -> None: ...


def stop_at(signals: StopSignals, doing: str) -> StopCheck:
    """Return a check that raises Interrupted after a signal while nothing is written yet; `doing`: a gerund."""

    def check_stop() -> None:
        if signals.seen:
            raise Interrupted(f"a signal arrived while {doing}; nothing is lost: run the same command again")

    return check_stop


def rows_in_slice(n_rows: int, n_values: int) -> int:
    return max(1, SLICE_VALUES * n_rows // max(1, n_values + ROW_VALUES * n_rows))


def is_long(n_values: int, n_ranks: int) -> bool:
    return n_values > SLICE_VALUES * n_ranks


def row_slices(n_rows: int, n_values: int) -> Iterator[slice]:
    """Yield consecutive slices of 0 .. n_rows − 1 with about SLICE_VALUES values each, of `n_values` in total."""
    step = rows_in_slice(n_rows, n_values)
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))
