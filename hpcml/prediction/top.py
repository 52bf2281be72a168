"""The text about the best labels of rows: a list of labels with their scores, best first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from hpcml.errors import ConfigError
from hpcml.files.table import csv_text

if TYPE_CHECKING:
    from hpcml.model.linear import Trained
    from hpcml.prediction.predict import Prediction

TOP_VALUES = 1 << 18  # labels of a piece of text


@dataclass
class TopChunk:
    """Consecutive rows of the split, with the best labels (n × k, int32) of each, and scores."""

    first: int  # the place of the first row in the split
    rows: np.ndarray  # row numbers of the dataset
    labels: np.ndarray
    scores: np.ndarray

    def pieces(self) -> Iterator[TopChunk]:
        """The chunk in pieces of about TOP_VALUES labels, small enough to be formatted."""
        step = max(1, TOP_VALUES // max(1, self.labels.shape[1]))
        for a in range(0, self.rows.size, step):
            some = slice(a, a + step)
            yield TopChunk(self.first + a, self.rows[some], self.labels[some], self.scores[some])


What = Literal["scores", "labels", "probabilities"]


def what_of(labels: bool, probabilities: bool) -> What:
    """The kind of prediction that is asked for. Raises ConfigError for both. Local."""
    if labels and probabilities:
        raise ConfigError("--labels writes the labels of rows and --probabilities a number for every label; give only one of them")
    return "labels" if labels else "probabilities" if probabilities else "scores"


def check_what(what: str, top: int | None) -> None:
    """Raise ConfigError unless it is known what is to be written of rows. Local."""
    if what not in get_args(What):
        raise ConfigError(f"cannot predict {what!r}; expected one of {', '.join(get_args(What))}")
    if top is not None and what == "labels":
        raise ConfigError(
            "--labels writes the labels with a score above their threshold and --top the best ones; give only one of them"
        )
    if top is not None and top < 1:
        raise ConfigError(f"--top {top}: expected at least 1")


def what_is_written(what: str, top: int | None, model: Trained) -> str:
    """Its name in messages; of labels, also by which thresholds."""
    if what == "labels" and model.threshold_source:
        return f"labels, by thresholds ({model.threshold_source}),"
    if what == "probabilities":
        what = f"probabilities ({model.probability_source})"
    return what if top is None else f"best labels (--top {top}), {what}," if what != "scores" else f"best labels (--top {top})"


def top_csv_lines(prediction: Prediction, chunk: TopChunk | None) -> str:
    """Lines `row,id?,labels`: `name:score` (`joined_names`) joined by `;`; the header for None."""
    if chunk is None:
        return csv_text([["row", *(["id"] if prediction.has_ids else []), "labels"]])
    ids: list[list[str]] = [[name] for name in prediction.ids(chunk.rows)] if prediction.has_ids else [[]] * chunk.rows.size
    names, rows = prediction.escaped_names, []
    shown = prediction.shown(chunk.scores, chunk.labels).tolist()
    for row, name, labels, scores in zip(chunk.rows, ids, chunk.labels.tolist(), shown, strict=True):
        pairs = zip(labels, scores, strict=True)
        rows.append([row, *name, ";".join(f"{names[label]}:{score!r}" for label, score in pairs)])
    return csv_text(rows)


def top_svmlight_lines(prediction: Prediction, chunk: TopChunk | None) -> str:
    """Lines `LABEL,LABEL l:score ...`: those above thresholds, then all best, from 1. No header."""
    if chunk is None:
        return ""
    lines, above = [], chunk.scores > prediction.model.thresholds[chunk.labels]
    shown = prediction.shown(chunk.scores, chunk.labels)
    for row in zip(chunk.labels.tolist(), shown.tolist(), above.tolist(), strict=True):
        best = sorted(zip(*row, strict=True))  # readers expect ascending numbers
        target = ",".join(str(label + 1) for label, _, predicted in best if predicted)
        rest = " ".join(f"{label + 1}:{value!r}" for label, value, _ in best)
        lines.append(f"{target} {rest}\n")
    return "".join(lines)


TOP_TEXT_FORMATS = {".csv": top_csv_lines, ".svm": top_svmlight_lines, ".svmlight": top_svmlight_lines}
