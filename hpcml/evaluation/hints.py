"""Hints that a model without thresholds predicts far too few labels, with the command that finds thresholds.

Without thresholds a row gets the labels with scores above 0, which maximises accuracy. No row of a rare label may reach 0, however
well its rows are ranked, so recall is far below precision. `hpcml tune` and `hpcml threshold` find thresholds that maximise F1.

Rules: on evaluated rows, macro recall is below FAR_BELOW of macro precision; on rows without known labels, the number of predicted
labels per row is below FAR_BELOW of that of training rows. With fewer than FEWEST true or expected labels there is no hint. There
is no hint about λ, since scores of evaluated rows do not show an unsuitable λ; training reports a default that
is often too large.
"""

from __future__ import annotations

import math
import shlex
from contextlib import suppress
from pathlib import Path

import numpy as np

from hpcml.data.dataset import DataFile
from hpcml.data.svmlight import is_text
from hpcml.errors import DataError
from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.thresholds import HELD_OUT
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.model.trained import Trained
from hpcml.run.folder import CONFIG, read_config

# Macro recall is 0.34 of macro precision on Reuters-21578 and 0.26 on bibtex, where tune raises macro F1 by 0.25 and 0.21; 0.69 on
# w8a, 0.70 on 20newsgroups and 0.81 on a9a, where it raises it by 0.03 to 0.08 (docs/evidence/deciding.md).
FAR_BELOW = 0.5
FEWEST = 20


def hint_at_low_recall(log: Log, evaluation: Evaluation, model: Trained, dataset: DataFile) -> None:
    recall, precision = evaluation.macro("recall"), evaluation.macro("precision")
    is_low = math.isnan(precision) or recall < FAR_BELOW * precision  # NaN: no row has a predicted label
    if is_low and int(evaluation.n_positive.sum()) >= FEWEST:
        far = f"macro recall ({recall:.2f}) is far below macro precision ({precision:.2f})"
        _log_hint(log, "no row gets a label" if math.isnan(precision) else far, model, dataset)


def hint_at_few_labels(log: Log, n_predicted: int, n_rows: int, model: Trained, dataset: DataFile | None = None) -> None:
    n_trained, counts = int(model.attrs.get("n_rows", 0)), model.labels.get("n_positive", np.zeros(0))
    usual = float(counts.sum()) / max(1, n_trained)
    if n_predicted < FAR_BELOW * usual * n_rows and usual * n_rows >= FEWEST:
        message = f"rows get {n_predicted / n_rows:.2g} labels on average, while training rows have {usual:.2g}"
        _log_hint(log, message, model, dataset)


def _log_hint(log: Log, message: str, model: Trained, dataset: DataFile | None) -> None:
    """Log the message and a command, on rank 0, if the model is linear and has no thresholds."""
    if log.rank != 0 or not isinstance(model, Model) or model.threshold_source:
        return
    if dataset is not None and HELD_OUT in dataset.split_names():
        command = shlex.join(["hpcml", "threshold", str(model.path), str(dataset.path)])
        advice = f"`{command} --measure label` finds thresholds that maximise F1"
    else:
        data = "DATA"  # or the dataset of the run, if it still exists
        with suppress(DataError, OSError, ValueError, KeyError):
            trained_on = Path(str(read_config(model.path.parent / CONFIG)["data"]))
            data = str(trained_on) if trained_on.is_file() and not is_text(trained_on) else "DATA"
        advice = f"`hpcml tune {shlex.quote(data)} --output RUN` trains with thresholds that maximise F1, "
        advice += "`hpcml threshold` finds them on held-out rows"
    log(f"note: {message}; the model has no thresholds: {advice}")
