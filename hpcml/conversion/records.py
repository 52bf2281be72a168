"""Bad records: reading continues, so that one error lists the first bad records, or --skip-bad skips them.

A rank stops when its bad records fill the list and exceed --skip-bad. Ranks read consecutive parts of the input, and each rank
counts bad records in order, so the error does not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TypeVar

from hpcml import mpi
from hpcml.errors import BadRecordsError, DataError, HpcmlError
from hpcml.log import Log, joined, plural

MAX_LISTED = 10  # bad records listed in errors and in the log

R = TypeVar("R")
T = TypeVar("T")


class EnoughBadRecords(Exception):
    """Raised when a rank has more bad records than are skipped or listed."""


class BadRecords:
    """The bad records of this rank. `with bad.at(location): ...` counts a ValueError or DataError of one record."""

    def __init__(self, most: int = 0, can_skip: bool = False) -> None:
        """At most `most` bad records of all ranks are skipped; `can_skip`: the source has the option --skip-bad."""
        self.most, self.can_skip, self.enough = most, can_skip, max(most + 1, MAX_LISTED)
        self.count, self.messages = 0, list[str]()
        self.skipped = 0  # on all ranks, after `conclude`
        self._location: object = ""

    def at(self, location: object) -> BadRecords:
        self._location = location
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, ValueError | DataError):
            self.add(error, None if isinstance(error, DataError) else self._location)
            return True
        return False

    def add(self, reason: object, location: object | None = None) -> None:
        """Count a bad record; `location` None: the reason includes it. Raises EnoughBadRecords."""
        self.count += 1
        if len(self.messages) < MAX_LISTED:
            self.messages.append(str(reason) if location is None else f"{location}: {reason}")
        if self.count >= self.enough:
            raise EnoughBadRecords

    def divided(self, records: Sequence[R], take: Callable[[Sequence[R]], T]) -> Iterator[T]:
        """Yield `take` of the records; after a DataError, of each half separately, down to single bad records."""
        pending = [records]
        while pending:
            part = pending.pop()
            try:
                result = take(part)
            except DataError as error:
                middle = len(part) // 2
                if middle:
                    pending += [part[middle:], part[:middle]]
                else:
                    self.add(error)
                continue
            yield result

    def conclude(self, comm: mpi.Comm, what: object, fatal: HpcmlError | None, log: Log) -> None:
        """`fatal`: the error that ended this rank's reading. Collective over `comm`."""
        count, messages = 0, list[str]()
        for rank_count, rank_messages, error in comm.allgather((self.count, self.messages, fatal)):
            count, messages = count + rank_count, (messages + rank_messages)[:MAX_LISTED]
            if count >= self.enough:
                break
            if error is not None:
                raise error
        self.skipped = count
        if count == 1 > self.most:
            raise DataError(messages[0])
        if count > self.most:
            count_text = f"{what}: {f'at least {self.enough}' if count >= self.enough else count} bad records"
            hint = "correct them, or use --skip-bad" if self.can_skip else "correct them"
            hint = f"--skip-bad {self.most} skips no more than {self.most}" if self.most else hint
            raise BadRecordsError(f"{count_text}; {hint}", *messages)
        if count:
            lines = [f"warning: {what}: skipped: {plural(count, 'bad record')} (--skip-bad {self.most})"]
            log(joined([*lines, *(f"  {each}" for each in messages)]), has_lines=True)
