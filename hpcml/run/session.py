"""The arguments of a trainer besides data and options: who takes part, where the result goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.log import Log
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from hpcml.model.trained import Trained


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
def session_of(comm: mpi.Comm | None, log: Log | None = None, signals: StopSignals | None = None) -> Iterator[Session]:
    """Collective over `comm` (None: this process alone). A session on a duplicate of it.

    Without `signals` those that come stop the work; without a `log` the logger `hpcml` hears.
    """
    with mpi.duplicated(comm) as own, signals or StopSignals() as seen:
        yield Session(own, log or Log(own.rank, to_logger=True), seen)


@contextmanager
def opened_dataset(session: Session, path: Path | str) -> Iterator[DataFile]:
    """Collective over the session. A dataset, on all ranks."""
    with mpi.agreed(session.comm, f"opening {path}"):
        dataset = DataFile(path)
    with dataset:
        yield dataset


@contextmanager
def opened_both(
    session: Session, model: Path | str | Trained, data: Path | str, threshold: float | None = None
) -> Iterator[tuple[Any, DataFile]]:
    """Collective over the session. A model (or its path) with a threshold, and a dataset."""
    from hpcml.model.open import share_model

    found = share_model(session.comm, model)
    found = found if threshold is None else found.with_threshold(threshold)
    with opened_dataset(session, data) as dataset:
        yield found, dataset
