"""Joining the models of runs of parts of the labels (`--label-part`): as one run's of them all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.files.slabs import Slab, SlabFile, new_file
from hpcml.log import plural, visible
from hpcml.model.linear import (
    ABOUT,
    CALIBRATION,
    OBJECTIVE,
    OPTIONAL,
    SIGMOID,
    THRESHOLDS,
    Model,
    SparseRows,
    about_of,
    describe_model,
    model_slabs,
)
from hpcml.options import parse_part
from hpcml.partition import offsets
from hpcml.run.folder import CONFIG, RunFolder, read_config
from hpcml.run.session import Session, Target

PART = "label-part"
_WEIGHTS = 1 << 24  # that are copied at a time


@dataclass(frozen=True)
class MergeReport:
    """The report of a join."""

    model: Path
    n_labels: int
    n_parts: int

    def __str__(self) -> str:
        return visible(f"{self.model}: {plural(self.n_labels, 'label')} of {plural(self.n_parts, 'run')}")


@dataclass(frozen=True)
class _Plan:
    """What all ranks need to know of the parts, in order."""

    runs: list[Path]
    places: list[int]  # of each part's first label among all, and their number
    weights: list[int] | None  # of sparse models: the place of each part's first weight among all, and their number
    config: dict[str, object]


def merge_models(session: Session, runs: list[Path], target: Target, free: Callable[[str], Collection[str]]) -> MergeReport:
    """Collective over the session. Join the models of all parts into the target's run folder.

    `free` tells of a method which keys of config.toml may differ between the parts. The model.h5
    has the bytes of a run without --label-part. Raises ConfigError if parts are missing, or do not
    belong together, DataError for a damaged one.
    """
    comm, output, parts = session.comm, target.output, list[_Part]()

    def read_parts() -> _Plan:
        if any(output.resolve() == run.resolve() for run in runs):
            raise ConfigError(f"{output} is one of the runs to merge; choose another --output")
        parts.extend(sorted((_Part(run) for run in runs), key=lambda part: part.place))
        _check_complete(parts, free(str(parts[0].config.get("method"))))
        return _plan(parts)

    with RunFolder(comm, output, session.log) as folder:
        plan = mpi.run_on_root(comm, "reading the parts", read_parts)
        with folder.replaced(plan.config, target.force) as fresh:
            _join(comm, plan, parts, fresh)
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
            raise ConfigError(f"{run} trained no part of the labels (--label-part); merge joins runs that did, or writes a .csv")
        if not (run / "model.h5").is_file():
            raise ConfigError(f"{run}: the run of part {text} is not finished; continue it with --resume")
        if not (run / "history.csv").is_file():
            raise DataError(f"{run}: it has no history.csv; train it again")
        self.place = parse_part(text)
        model = Model(run / "model.h5")  # not kept: there may be more parts than files that a process may open
        self.label_names, self.n_columns, self.precision = model.label_names, model.n_columns, model.precision
        self.label_titles = model.label_titles or [""] * model.n_labels
        self.n_weights, self.sparse, self.training_keys = model.n_weights, model.sparse, model.training_keys
        counted = OBJECTIVE if model.attrs.keys().isdisjoint(OBJECTIVE) else ()  # a model of a method that minimises nothing
        known = {name: model.attrs.get(name) for name in ABOUT if name not in counted} | about_of(model.attrs)
        self.about: dict[str, Any] = {name: value for name, value in known.items() if name not in (*THRESHOLDS, *CALIBRATION)}
        self.n_features, self.certified = model.n_features, "gap" in model.labels
        self.optional = [name for name in OPTIONAL if name in model.labels]
        self.thresholds = {name: model.attrs.get(name, "?") for name in THRESHOLDS} if "threshold" in model.labels else {}
        self.calibration = {name: model.attrs.get(name, "?") for name in CALIBRATION} if SIGMOID[0] in model.labels else {}
        self.facts = self.about | {  # that all parts have in common
            "form of the weights": f"{'sparse' if self.sparse else 'dense'}, {self.precision}, {self.n_columns} columns",
            "thresholds": ", ".join(map(str, self.thresholds.values())) or "none",
            "probabilities": ", ".join(map(str, self.calibration.values())) or "none",
            "columns about labels": ", ".join(self.optional) or "none",
            **{name: hashlib.sha256(getattr(model, name)).hexdigest() for name in ("columns", "factors")},
        }

    def slabs(self, n_labels: int, n_weights: int | None) -> dict[str, Slab]:
        """The numbers of a model like this one of so many labels and, if sparse, weights."""
        return model_slabs(n_labels, self.n_features, self.n_columns, self.precision, self.certified, n_weights, self.optional)


def _check_complete(parts: list[_Part], free: Collection[str]) -> None:
    """Raise ConfigError unless the parts are all those of one training, `free` options apart."""
    first = parts[0]
    for part in parts[1:]:
        for key in sorted((first.config.keys() | part.config.keys()) - {*free, PART}):
            if part.config.get(key) != first.config.get(key):
                here, there = part.config.get(key), first.config.get(key)
                raise ConfigError(f"{part.run} had {key} = {here!r}, but {first.run} {there!r}; merge joins parts of one training")
        if part.place[1] != first.place[1]:
            raise ConfigError(f"{part.run} is one of {part.place[1]} parts, but {first.run} one of {first.place[1]}")
        for name in {**part.facts, **first.facts}:
            here, there = part.facts.get(name, "none"), first.facts.get(name, "none")
            if not np.array_equal(here, there):
                raise ConfigError(
                    f"{part.run} and {first.run} differ in {name} ({here}; {there}); train all parts on the same data with "
                    "the same options, and find thresholds and probabilities alike"
                )
    for a, b in pairwise(parts):
        if a.place == b.place:
            raise ConfigError(f"{a.run} and {b.run} are both part {a.config[PART]}; give each part once")
    numbers = [part.place[0] for part in parts]
    for number in range(1, first.place[1] + 1):
        if number not in numbers:
            raise ConfigError(f"part {number} of {first.place[1]} is missing; merge needs the runs of all parts")


def _plan(parts: list[_Part]) -> _Plan:
    """The facts that the other ranks need."""
    first = parts[0]
    if any(value is None for value in first.about.values()):
        raise DataError(f"{first.run / 'model.h5'}: damaged model: it does not say how it was trained; train it again")
    places = offsets([len(part.label_names) for part in parts]).tolist()
    config = {key: value for key, value in first.config.items() if key != PART}
    weights = offsets([part.n_weights for part in parts]).tolist() if first.sparse else None
    return _Plan([part.run for part in parts], places, weights, config)


def _join(comm: mpi.Comm, plan: _Plan, parts: list[_Part], target: Path) -> None:
    """Collective. Write model and history into the folder `target`; ranks take turns at parts."""

    def describe(file: h5py.File) -> None:
        names = [name for part in parts for name in part.label_names]
        about = parts[0].about | parts[0].thresholds | parts[0].calibration
        titles = [title for part in parts for title in part.label_titles]
        n_columns = parts[0].n_columns if plan.weights else None
        describe_model(file, about, names, n_columns, titles, parts[0].training_keys)

    with new_file(comm, target / "model.h5") as model:
        n_weights = plan.weights[-1] if plan.weights else None
        model.layout(parts[0].slabs(plan.places[-1], n_weights) if comm.rank == 0 else {}, describe)
        with mpi.agreed(comm, f"writing {model.target}"):
            for number in range(comm.rank, len(plan.runs), comm.size):
                first_weight = plan.weights[number] if plan.weights else 0
                _copy(Model(plan.runs[number] / "model.h5"), model, plan.places[number], first_weight)
            if comm.rank == 0:
                if plan.weights:
                    model.write("W/indptr", 0, np.zeros(1))
                first = Model(plan.runs[0] / "model.h5")
                model.write("columns", 0, first.columns)
                model.write("factors", 0, first.factors)
    for name in ("history.csv", "choice.csv"):
        mpi.run_on_root(comm, f"writing {target / name}", partial(_join_tables, [run / name for run in plan.runs], target / name))


def _copy(source: Model, target: SlabFile, place: int, first: int) -> None:
    """Write the labels of `source` from row `place`, weight `first`, on."""
    if isinstance(source.W, SparseRows):
        target.write("W/indptr", place + 1, source.W.indptr[1:] + first)
        target.write("W/indices", first, source.W.indices)
        target.write("W/data", first, source.W.data)
    else:
        step = max(1, _WEIGHTS // max(1, source.n_columns))
        for begin in range(0, source.n_labels, step):
            target.write("W", place + begin, source.W[begin : begin + step])
    target.write("bias", place, source.bias)
    for name, values in source.labels.items():
        target.write(f"labels/{name}", place, values)


def _join_tables(sources: list[Path], target: Path) -> None:
    """Write one header and the lines of all; nothing unless all are there."""
    if not all(source.exists() for source in sources):
        return
    with target.open("wb") as out:
        for number, source in enumerate(sources):
            with source.open("rb") as lines:
                header = lines.readline()
                if number == 0:
                    out.write(header)
                while block := lines.read(1 << 24):
                    out.write(block)
