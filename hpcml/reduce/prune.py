"""Remove small weights from a linear model: the loss of quality, and the sparse file (`hpcml prune`)."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.evaluation.evaluate import evaluate
from hpcml.evaluation.scored_rows import SeenRows, warn_about_training_rows
from hpcml.files.report import ReportedResult, cell
from hpcml.files.slabs import new_file
from hpcml.files.table import table
from hpcml.log import Log, plural
from hpcml.model.copy_labels import copy_labels, create_slabs
from hpcml.model.linear import Model, count_bytes, empty_labels_warning
from hpcml.model.trained import Trained
from hpcml.partition import even_bounds


@dataclass(frozen=True)
class Line:
    below: float  # minimum magnitude; 0: the unchanged model
    n_weights: int
    n_all: int  # labels × columns
    n_emptied: int  # labels that lose all weights
    n_bytes: int  # of the arrays in the file
    macro_map: float
    precision_at: dict[int, float]


@dataclass(frozen=True)
class Pruning(ReportedResult):
    """The unchanged model, then one per magnitude."""

    model: Path
    data: Path
    split: str
    lines: list[Line]
    n_labels: int
    n_rows: int
    seen: SeenRows  # rows of the split that the model was trained on
    lost_scores: bool  # the model has leave-one-out scores, and the pruned one that is written has not

    def describe(self) -> Iterator[str]:
        """Return a table with a line per magnitude, and warnings about labels without weights."""
        cutoffs = list(self.lines[0].precision_at)
        rows = [["below", "weights", "%", "MB", "MAP", "change", *(f"P@{k}" for k in cutoffs)]]
        for number, line in enumerate(self.lines):
            change = line.macro_map - self.lines[0].macro_map
            shares = [f"{100 * line.n_weights / max(1, line.n_all):.2f}", f"{line.n_bytes / 1e6:.3f}", cell(line.macro_map)]
            values = [cell(change, "+.4f") if number else "-", *map(cell, line.precision_at.values())]
            rows.append([f"{line.below:g}" if number else "unchanged", f"{line.n_weights:,}", *shares, *values])
        yield f"{self.model} on {self.data}, split {self.split}:"
        yield from [*warn_about_training_rows(self.seen, self.n_rows), "", *table(rows)]
        for line in self.lines:
            if line.n_emptied:
                yield f"below {line.below:g}: {empty_labels_warning(line.n_emptied, self.n_labels, '--below')}"
        if self.lost_scores:
            yield "note: the pruned model keeps the thresholds, but not the leave-one-out scores, because its weights differ"


def prune(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str,
    below: Sequence[float],
    output: Path | None,
    force: bool,
    log: Log,
    half: bool = False,
) -> Pruning:
    """Evaluate the model without weights smaller than each `below`; write the last model to `output`. Collective over `comm`.

    `half`: round the other weights to float16.
    """
    if not isinstance(model, Model):
        raise ConfigError(f"{model.path}: a classifier has no weights to prune; expected a linear model")
    if model.combination is not None:
        raise ConfigError(f"{model.path}: its labels have several weights per feature; expected a model with one")
    if not below:
        raise ConfigError("--below: expected at least one magnitude")
    with nullcontext() if output is None else new_file(comm, output, force, [model.path, dataset.path]) as out:
        lines: list[Line] = []
        had_weights = None  # per label
        for number, value in enumerate((0.0, *below)):
            pruned = model.pruned(value, half and number > 0)
            counts = np.zeros(model.n_labels, dtype=np.int64)  # remaining weights per label
            with mpi.agreed(comm, f"reading {pruned.path}"):
                for label in range(*even_bounds(model.n_labels, comm.size)[comm.rank : comm.rank + 2].tolist()):
                    counts[label] = pruned.row(label)[1].size
            mpi.allreduce_sum(comm, counts)
            had_weights = counts > 0 if had_weights is None else had_weights
            n_weights = int(counts.sum()) if number else model.n_weights
            n_bytes = count_bytes(create_slabs(pruned, int(counts.sum()), model.n_labels))
            log(f"evaluating the model with {plural(n_weights, 'weight')}")
            result = evaluate(comm, pruned if number else model, dataset, split, log)
            n_all = model.n_labels * model.n_columns
            n_emptied = int(np.count_nonzero(had_weights & (counts == 0)))
            lines.append(Line(value, n_weights, n_all, n_emptied, n_bytes, result.macro("average_precision"), result.precision_at))
        if out is not None:
            copy_labels(comm, out, [lambda: pruned], [model.n_labels], model.label_names, model.label_titles)
    if output is not None:
        log(f"{output}: {plural(n_weights, 'weight')} of {plural(model.n_labels, 'label')}")
    lost_scores = output is not None and model.scores is not None
    return Pruning(model.path, dataset.path, split, lines, model.n_labels, result.n_rows, result.seen, lost_scores)
