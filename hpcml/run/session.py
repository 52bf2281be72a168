"""The arguments of a trainer besides data and options: who takes part, where the result goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hpcml import mpi
from hpcml.log import Log
from hpcml.signals import StopSignals


@dataclass
class Session:
    """The ranks that take part, who hears what is said, and the signals that stop the work."""

    comm: mpi.Comm
    log: Log
    signals: StopSignals = field(default_factory=StopSignals)


class Target(NamedTuple):
    """A run folder, whose run is begun anew (`force`), or continued (`resume`)."""

    output: Path
    force: bool = False
    resume: bool = False


@contextmanager
@mpi.collective
def session_of(comm: mpi.Comm | None, log: Log | None = None, signals: StopSignals | None = None) -> Iterator[Session]:
    """Collective over `comm` (None: this process alone). A session on a duplicate of it.

    Without `signals` those that come stop the work; without a `log` the logger `hpcml` hears.
    """
    with mpi.duplicated(comm) as own, signals or StopSignals() as seen:
        yield Session(own, log or Log(own.rank, to_logger=True), seen)
