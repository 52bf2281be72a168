"""Joining the models of runs that trained parts of the labels (`--label-part`): the model of one run that trained them all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.config import parse_part
from hpcml.convex.train import finish
from hpcml.data.slabs import SlabFile, temporary_path
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.model import ABOUT, Model, describe_model, model_slabs
from hpcml.runfolder import CONFIG, FREE, RunFolder, read_config

PART = "label-part"
_WEIGHTS = 1 << 24  # that are copied at a time


@dataclass(frozen=True)
class MergeReport:
    """What was joined."""

    model: Path
    n_labels: int
    n_parts: int

    def __str__(self) -> str:
        return f"{self.model}: {self.n_labels:,} labels of {self.n_parts} runs"


@dataclass(frozen=True)
class _Plan:
    """What rank 0 has found out of the parts, in order."""

    runs: list[Path]
    places: list[int]  # of each part's first label among all, and their number
    shape: tuple[int, int]  # features and columns
    precision: str
    config: dict[str, object]


@mpi.collective
def merge_models(comm: mpi.Comm, runs: list[Path], output: Path, force: bool, log: Log) -> MergeReport:
    """Collective over `comm`. Join the models of all parts of one training into the run folder `output`.

    Its model.h5 has the bytes of a run without --label-part. Raises ConfigError if parts are missing, or do not belong together,
    DataError for a damaged one.
    """
    plan, parts = None, []
    with mpi.agreed(comm, "reading the parts"):
        if comm.rank == 0:
            parts = sorted((_Part(run) for run in runs), key=lambda part: part.place)
            _check_complete(parts)
            if any(output.resolve() == run.resolve() for run in runs):
                raise ConfigError(f"{output} is one of the runs to merge; choose another --output")
            plan = _plan(parts)
    plan = comm.bcast(plan)
    with RunFolder(comm, output, log) as folder:
        folder.prepare(plan.config, force, resume=False)
        with folder.discarded_on_error():
            _join(comm, plan, parts, folder)
        finish(comm, folder)
    return MergeReport(folder.model, plan.places[-1], len(plan.runs))


class _Part:
    """A finished run of one part of the labels. Local; raises ConfigError and DataError."""

    def __init__(self, run: Path) -> None:
        self.run = run
        if not (run / CONFIG).is_file():
            raise ConfigError(f"{run}: not a run folder (no {CONFIG})")
        self.config = read_config(run / CONFIG)
        text = self.config.get(PART)
        if not isinstance(text, str):
            raise ConfigError(
                f"{run}: this run trained no part of the labels (--label-part); merge joins such runs, or writes a .csv"
            )
        if not (run / "model.h5").is_file():
            raise ConfigError(f"{run}: the run of part {text} is not finished; continue it with --resume")
        self.place = parse_part(text)
        self.model = Model(run / "model.h5")


def _check_complete(parts: list[_Part]) -> None:
    """Raise ConfigError unless the parts, in order, are all those of one training."""
    first = parts[0]
    for part in parts[1:]:
        for key in sorted((first.config.keys() | part.config.keys()) - FREE - {PART}):
            if part.config.get(key) != first.config.get(key):
                here, there = part.config.get(key), first.config.get(key)
                raise ConfigError(f"{part.run} had {key} = {here!r}, but {first.run} {there!r}; merge joins parts of one training")
        if part.place[1] != first.place[1]:
            raise ConfigError(f"{part.run} is one of {part.place[1]} parts, but {first.run} one of {first.place[1]}")
        for name in ABOUT:
            if part.model.attrs[name] != first.model.attrs[name]:
                raise ConfigError(f"{part.run} was trained on other data than {first.run} ({name} differs)")
        if not np.array_equal(part.model.columns, first.model.columns) or not np.array_equal(
            part.model.factors, first.model.factors
        ):
            raise DataError(f"{part.run}: its columns are not those of {first.run}, though they had the same rows; train it again")
    numbers = [part.place[0] for part in parts]
    for a, b in pairwise(parts):
        if a.place == b.place:
            raise ConfigError(f"{a.run} and {b.run} are both part {a.config[PART]}; give each part once")
    missing = sorted(set(range(1, first.place[1] + 1)) - set(numbers))
    if missing:
        some = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
        raise ConfigError(f"part {some} of {first.place[1]} is missing; merge needs the runs of all parts")


def _plan(parts: list[_Part]) -> _Plan:
    """What the other ranks must know."""
    first = parts[0].model
    places = np.cumsum([0, *(part.model.n_labels for part in parts)]).tolist()
    config = {key: value for key, value in parts[0].config.items() if key != PART}
    return _Plan([part.run for part in parts], places, (first.n_features, first.n_columns), first.W.dtype.str, config)


@mpi.collective
def _join(comm: mpi.Comm, plan: _Plan, parts: list[_Part], folder: RunFolder) -> None:
    """Collective. Write the unfinished model and the history of `folder`; each rank copies every comm.size-th part."""

    def describe(file: h5py.File) -> None:
        describe_model(file, parts[0].model.attrs, [name for part in parts for name in part.model.label_names])

    with temporary_path(comm, folder.model_part, overwrite=True) as path:
        model = SlabFile(comm, path, folder.model)
        try:
            model.layout(model_slabs(plan.places[-1], *plan.shape, plan.precision), describe)
            with mpi.agreed(comm, f"writing {folder.model}"):
                for number in range(comm.rank, len(plan.runs), comm.size):
                    _copy(Model(plan.runs[number] / "model.h5"), model, plan.places[number])
                if comm.rank == 0:
                    model.write("columns", 0, parts[0].model.columns)
                    model.write("factors", 0, parts[0].model.factors)
                model.flush()
        finally:
            model.close()
    with mpi.agreed(comm, f"writing {folder.history_sorted}"):
        if comm.rank == 0:
            _join_histories([run / "history.csv" for run in plan.runs], folder.history_sorted)


def _copy(source: Model, target: SlabFile, place: int) -> None:
    """Write the labels of `source` from row `place` of the joint model on. Local; raises OSError."""
    step = max(1, _WEIGHTS // max(1, source.n_columns))
    for begin in range(0, source.n_labels, step):
        target.write("W", place + begin, source.W[begin : begin + step])
    target.write("bias", place, source.bias)
    for name, values in source.labels.items():
        target.write(f"labels/{name}", place, values)


def _join_histories(sources: list[Path], target: Path) -> None:
    """One header, then the lines of all. Local; raises OSError."""
    with target.open("wb") as out:
        for number, source in enumerate(sources):
            with source.open("rb") as lines:
                header = lines.readline()
                if number == 0:
                    out.write(header)
                while block := lines.read(1 << 24):
                    out.write(block)
