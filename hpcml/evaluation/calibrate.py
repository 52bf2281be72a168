"""Finding sigmoids that make scores probabilities, kept in the model's file (`hpcml calibrate`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.evaluation.decision import decide
from hpcml.evaluation.judged import hold_out
from hpcml.evaluation.seen import count_seen
from hpcml.evaluation.store_thresholds import changed_model, held_out_split, training_rows_warning
from hpcml.evaluation.summaries import summaries_of
from hpcml.log import Log, joined, plural
from hpcml.model.linear import CALIBRATION, SIGMOID, Model, Trained


@dataclass(frozen=True)
class CalibrationReport:
    """The sigmoids (n_labels × 2: slope, offset), the rows they are of, and the model with them."""

    model: Path
    data: Path
    split: str
    n_rows: int
    n_seen: int  # of these rows, how many the model was trained on
    sigmoids: np.ndarray
    n_without: int  # labels that none of the rows has

    def __str__(self) -> str:
        lines = [
            f"{self.model}: probabilities of {plural(len(self.sigmoids), 'label')}, from {self.data}, split {self.split}",
            *training_rows_warning(self.n_seen, self.n_rows, "probabilities"),
        ]
        for name, values in zip(("slope", "offset"), self.sigmoids.T, strict=True):
            lines.append(f"{name}: {values.min():.4g} to {values.max():.4g}, median {np.median(values):.4g}")
        if self.n_without:
            lines.append(f"labels that none of these rows has, with the sigmoid of the rarest as their guide: {self.n_without:,}")
        return joined(lines)


def calibrate(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str | None,
    output: Path | None = None,
    force: bool = False,
    log: Log | None = None,
) -> CalibrationReport:
    """Collective over `comm`. Fit sigmoids to labels (`decision`), and write the model with them.

    Raises ConfigError for a classifier, and for what exists (without `force`), DataError if files
    do not fit or cannot be read or written, NonFiniteError if a score is not finite.
    """
    if not isinstance(model, Model):
        raise ConfigError(f"{model.path}: a classifier of {model.attrs.get('method', '?')} is not calibrated; take a linear model")
    split = held_out_split(dataset, split)
    if output is None and SIGMOID[0] in model.labels and not force:
        raise ConfigError(f"{model.path} has probabilities ({model.probability_source}); use --force to replace them, or --output")
    with changed_model(comm, model, dataset, output, force) as (columns, about):
        n_seen = count_seen(comm, model, dataset, split)
        held_out = hold_out(comm, model, dataset, split)
        if log is not None:
            rows = f"{plural(held_out.n_rows, 'row')} of split {split}"
            log(f"fitting the sigmoids of {plural(held_out.n_labels, 'label')} to {rows}")
        decision = decide(summaries_of(held_out, Log(comm.rank, quiet=True) if log is None else log))
        sigmoids = np.tile(decision.rarest[1:], (model.n_labels, 1))
        sigmoids[held_out.numbers] = decision.sigmoids
        n_without = model.n_labels - int((held_out.n_positive() > 0).sum())
        columns |= zip(SIGMOID, sigmoids.T, strict=True)
        about |= zip(CALIBRATION, ("sigmoid", split), strict=True)
    return CalibrationReport(output or model.path, dataset.path, split, held_out.n_rows, n_seen, sigmoids, n_without)
