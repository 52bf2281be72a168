"""The arguments of a trainer besides data and options: ranks, log, signals, and the output folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.log import Log
from hpcml.model.trained import Trained
from hpcml.signals import StopSignals


@dataclass
class Session:
    comm: mpi.Comm
    log: Log
    signals: StopSignals = field(default_factory=StopSignals)


class Target(NamedTuple):
    output: Path
    force: bool = False
    resume: bool = False


@contextmanager
def open_session(comm: mpi.Comm | None, log: Log | None = None, signals: StopSignals | None = None) -> Iterator[Session]:
    """Yield a session on a duplicate of `comm`; its default log is the logger `hpcml`. Collective over `comm`."""
    with mpi.duplicated(comm) as own, signals or StopSignals() as seen:
        yield Session(own, log or Log(own.rank, to_logger=True), seen)


@contextmanager
def open_shared_dataset(session: Session, path: Path | str) -> Iterator[DataFile]:
    with mpi.agreed(session.comm, f"opening {path}"):
        dataset = DataFile(path)
    with dataset:
        yield dataset


@contextmanager
def open_model_and_dataset(
    session: Session, model: Path | str | Trained, data: Path | str, threshold: float | None = None
) -> Iterator[tuple[Any, DataFile]]:
    from hpcml.model.open import share_model

    shared_model = share_model(session.comm, model)
    shared_model = shared_model if threshold is None else shared_model.with_threshold(threshold)
    with open_shared_dataset(session, data) as dataset:
        yield shared_model, dataset
