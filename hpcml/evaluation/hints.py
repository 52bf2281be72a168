"""Hints that a model without thresholds gives far too few labels, with the command that finds thresholds.

Without thresholds a row has the labels whose scores are above 0. That suits accuracy. Of a rare
label often no row reaches 0, however well its rows are ranked, so that recall is far below
precision. `hpcml tune` and `hpcml threshold` find thresholds that suit F1.

The rules: of judged rows, macro recall is less than FAR_BELOW of macro precision. Of rows whose labels nobody knows, they get less
than FAR_BELOW of the labels that training rows have, a row. Of fewer than FEWEST labels, found or expected, nothing is said.
Nothing is said of a λ that does not suit the data: scores of judged rows do not show it (docs/notebook.md). Training says where the
default is often too large.
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
    """Say in a sentence if thresholds would find many more of the true labels. Local."""
    recall, precision = evaluation.macro("recall"), evaluation.macro("precision")
    few = math.isnan(precision) or recall < FAR_BELOW * precision  # NaN: no row has got a label
    if few and int(evaluation.n_positive.sum()) >= FEWEST:
        far = f"recall ({recall:.2f}) is far below precision ({precision:.2f}), mean over labels"
        _say(log, "no row gets a label" if math.isnan(precision) else far, model, dataset)


def hint_at_few_labels(log: Log, n_given: int, n_rows: int, model: Trained, dataset: DataFile | None = None) -> None:
    """Do the same for rows that got `n_given` labels together, compared with training rows. Local."""
    n_trained, counts = int(model.attrs.get("n_rows", 0)), model.labels.get("n_positive", np.zeros(0))
    usual = float(counts.sum()) / max(1, n_trained)
    if n_given < FAR_BELOW * usual * n_rows and usual * n_rows >= FEWEST:
        given = n_given / n_rows
        _say(log, f"a row gets {given:.2g} labels, a training row has {usual:.2g}, mean over rows", model, dataset)


def _say(log: Log, what: str, model: Trained, dataset: DataFile | None) -> None:
    """Log it, if the model gives labels by scores above 0 because nobody has found thresholds."""
    if log.rank != 0 or not isinstance(model, Model) or model.threshold_source:
        return
    if dataset is not None and HELD_OUT in dataset.split_names():
        how = f"`{shlex.join(['hpcml', 'threshold', str(model.path), str(dataset.path)])} --measure label` finds those that suit F1"
    else:
        data = "DATA"  # or the dataset that the run was trained on, if it is still there
        with suppress(DataError, OSError, ValueError, KeyError):
            trained_on = Path(str(read_config(model.path.parent / CONFIG)["data"]))
            data = str(trained_on) if trained_on.is_file() and not is_text(trained_on) else "DATA"
        how = f"`hpcml tune {shlex.quote(data)} --output RUN` trains with those that suit F1, "
        how += "`hpcml threshold` finds them on held-out rows"
    log(f"note: {what}; the model has no thresholds: {how}")
