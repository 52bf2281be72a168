"""Bad records: the rest of the input is read all the same, so that one error lists the first of them, or --skip-bad skips them.

A rank stops reading when its bad records fill the list and are more than --skip-bad. Ranks hold consecutive
parts of the input, and each counts its bad records in order. So the error is the same on any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TypeVar

from hpcml import mpi
from hpcml.errors import BadRecordsError, DataError, HpcmlError
from hpcml.log import Log, joined, plural

LISTED = 10  # bad records that errors and the log list

R = TypeVar("R")
T = TypeVar("T")


class EnoughBadRecords(Exception):
    """A rank has more bad records than are skipped or listed."""


class BadRecords:
    """The bad records of this rank; at most `most` of all ranks are skipped.

    As a context it stands for one record: `with bad.at(place): ...` counts a ValueError or DataError as a bad record.
    """

    def __init__(self, most: int = 0, can_skip: bool = False) -> None:
        """`can_skip`: the source has the option --skip-bad."""
        self.most, self.can_skip, self.enough = most, can_skip, max(most + 1, LISTED)
        self.count, self.listed = 0, list[str]()
        self.skipped = 0  # on all ranks, after `conclude`
        self._place: object = ""

    def at(self, place: object) -> BadRecords:
        """Set the place of the next record, for messages."""
        self._place = place
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, ValueError | DataError):
            self.add(error, None if isinstance(error, DataError) else self._place)
            return True
        return False

    def add(self, reason: object, place: object | None = None) -> None:
        """Count a bad record; `place` None: the reason names it. Raises EnoughBadRecords."""
        self.count += 1
        if len(self.listed) < LISTED:
            self.listed.append(str(reason) if place is None else f"{place}: {reason}")
        if self.count >= self.enough:
            raise EnoughBadRecords

    def divided(self, records: Sequence[R], take: Callable[[Sequence[R]], T]) -> Iterator[T]:
        """Yield `take` of all records or, if that raises a DataError, of halves of them, and so on down to one bad record."""
        waiting = [records]
        while waiting:
            some = waiting.pop()
            try:
                found = take(some)
            except DataError as error:
                middle = len(some) // 2
                if middle:
                    waiting += [some[middle:], some[:middle]]
                else:
                    self.add(error)
                continue
            yield found

    def conclude(self, comm: mpi.Comm, what: object, fatal: HpcmlError | None, log: Log) -> None:
        """Raise the error that comes first in the input, or log the records that are skipped. Collective over `comm`.

        `fatal` is the error that ended this rank's reading.
        """
        count, listed = 0, list[str]()
        for of_rank, some, error in comm.allgather((self.count, self.listed, fatal)):
            count, listed = count + of_rank, (listed + some)[:LISTED]
            if count >= self.enough:
                break
            if error is not None:
                raise error
        self.skipped = count
        if count == 1 > self.most:
            raise DataError(listed[0])
        if count > self.most:
            found = f"{what}: {f'at least {self.enough}' if count >= self.enough else count} bad records"
            hint = "correct them, or use --skip-bad" if self.can_skip else "correct them"
            hint = f"--skip-bad {self.most} skips no more than {self.most}" if self.most else hint
            raise BadRecordsError(f"{found}; {hint}", *listed)
        if count:
            lines = [f"warning: {what}: skipped: {plural(count, 'bad record')} (--skip-bad {self.most})"]
            log(joined([*lines, *(f"  {each}" for each in listed)]), has_lines=True)
