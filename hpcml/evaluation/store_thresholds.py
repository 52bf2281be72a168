"""Finding thresholds and keeping them in the model's file (`hpcml threshold`), else unchanged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.evaluation.comparable import BY_SCORE, probability
from hpcml.evaluation.report import cell
from hpcml.evaluation.seen import count_seen, seen_note
from hpcml.evaluation.thresholds import Found, ThresholdSearch, find_thresholds
from hpcml.files.atomic import temporary_path
from hpcml.files.slabs import editing, group_in
from hpcml.log import Log, joined, plural
from hpcml.model.linear import THRESHOLDS, Trained

HELD_OUT = "valid"  # the split that thresholds are found on if nobody names another
OF = {"label": "F1 per label (macro)", "micro": "micro F1", "instance": "F1 per row"}


@dataclass(frozen=True)
class ThresholdReport:
    """The thresholds found, the rows that they were found on, and the model that has them."""

    model: Path
    data: Path
    split: str
    n_rows: int
    n_seen: int  # of these rows, how many the model was trained on
    found: Found

    def __str__(self) -> str:
        found, thresholds, by_score = self.found, self.found.thresholds, self.found.by == BY_SCORE
        shared = f"{found.shared:.6g}" if by_score else f"probability {probability(found.shared):.6g}"
        lines = [f"{self.model}: thresholds for {OF[found.measure]} (method {found.method}), from {self.data}, split {self.split}"]
        lines += training_rows_warning(self.n_seen, self.n_rows, "thresholds")
        zero = "threshold 0" if by_score or found.measure == "label" else "probability 0.5"
        worth = f"{cell(found.before)} at {zero}, {cell(found.after)} with these thresholds"
        lines.append(f"{OF[found.measure]} of these {self.n_rows:,} rows: {worth} (other rows will have less)")
        if found.everything:
            lines.append("warning: the best threshold gives every row every label: these scores tell nothing of the labels")
        if found.measure != "label":
            return joined([*lines, f"threshold of all {thresholds.size:,} labels: {shared}"])
        if found.method == "shrink":
            return joined([*lines, *self._of_shrunk()])
        n_shared = sum(found.borrowed.values())
        own = thresholds[found.own]
        if own.size:
            spread = f"{own.min():.4g} to {own.max():.4g}, median {np.median(own):.4g}"
            lines.append(f"labels with a threshold of their own: {own.size:,} of {thresholds.size:,} ({spread})")
        if n_shared:
            lines.append(f"labels that share the threshold of micro F1, {shared}: {n_shared:,} ({self._reasons()})")
        return joined(lines)

    def _of_shrunk(self) -> list[str]:
        """Remarks on thresholds that were drawn to those of labels as frequent."""
        values = self.found.thresholds
        spread = f"{values.min():.4g} to {values.max():.4g}, median {np.median(values):.4g}"
        lines = [
            f"a threshold for each of {plural(values.size, 'label')} ({spread}), the rarer the closer to that of labels as frequent"
        ]
        return lines + ([f"labels that have the threshold of the rarest: {reasons}"] if (reasons := self._reasons()) else [])

    def _reasons(self) -> str:
        return "; ".join(f"{count:,} {reason}" for reason, count in self.found.borrowed.items() if count)


def training_rows_warning(n_seen: int, n_rows: int, found: str) -> list[str]:
    """A line if the model was trained on some of the rows that something was found on."""
    better = "; their scores are better than those of other rows, for which these"
    rest = f"{better} {found} will not do; take a split that was held out"
    return [seen_note(n_seen, n_rows, rest)] if n_seen else []


def threshold(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str | None,
    search: ThresholdSearch,
    output: Path | None = None,
    force: bool = False,
    log: Log | None = None,
) -> ThresholdReport:
    """Collective over `comm`. Find thresholds (`find_thresholds`), and write the model with them.

    Raises ConfigError for options that do not fit, and for thresholds or an output that exist
    (without `force`), DataError if files do not fit or cannot be read or written.
    """
    search.checked(model)
    split = held_out_split(dataset, split)
    if output is None and "threshold" in model.labels and not force:
        measured = model.attrs.get("threshold_measure", "?")
        raise ConfigError(f"{model.path} has thresholds (measure {measured}); use --force to replace them, or --output")
    with changed_model(comm, model, dataset, output, force) as (columns, about):
        n_seen = count_seen(comm, model, dataset, split)
        found = find_thresholds(comm, model, dataset, split, search, log)
        columns["threshold"] = found.thresholds
        about |= zip(THRESHOLDS, (found.measure, found.method, split), strict=True)
    return ThresholdReport(output or model.path, dataset.path, split, dataset.split(split).size, n_seen, found)


@contextmanager
def changed_model(
    comm: mpi.Comm, model: Trained, dataset: DataFile, output: Path | None, force: bool
) -> Iterator[tuple[dict[str, np.ndarray], dict[str, str]]]:
    """Collective over `comm`. What to fill for the model's file, or `output`: columns, attributes.

    The file is copied beside its destination, the copy is edited (`write_of_labels`) and renamed.
    """
    columns: dict[str, np.ndarray] = {}
    about: dict[str, str] = {}
    target, inputs = output or model.path, [dataset.path, *([] if output is None else [model.path])]
    with temporary_path(comm, target, force or output is None, inputs) as temporary:
        yield columns, about
        with mpi.agreed(comm, f"writing {target}"):
            if comm.rank == 0:
                shutil.copyfile(model.path, temporary)
                write_of_labels(temporary, target, columns, about)


def held_out_split(dataset: DataFile, wanted: str | None) -> str:
    """The split named, or else the usual one. Raises ConfigError if it is not there. Local."""
    names = dataset.split_names()
    if wanted is None and HELD_OUT not in names:
        raise ConfigError(
            f"{dataset.path} has no split {HELD_OUT}; name rows with --split that neither trained the model nor will judge it "
            f"(splits: {', '.join(names) or 'none'})"
        )
    return wanted or HELD_OUT


def write_of_labels(path: Path, target: Path, columns: dict[str, np.ndarray], about: dict[str, str]) -> None:
    """Put numbers of labels and attributes into a model file. Local; raises OSError."""
    with editing(path, target=target) as file:
        group = group_in(file, "labels")
        for name, values in columns.items():
            if name in group:
                group[name][:] = values
            else:
                group.create_dataset(name, data=np.asarray(values, dtype="<f8"))
        for name, value in about.items():
            file.attrs[name] = value
