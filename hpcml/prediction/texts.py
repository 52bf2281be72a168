"""The text about scored rows: scores, labels, or the best labels with their scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.files.table import csv_text, escaped_formula

if TYPE_CHECKING:
    from hpcml.model.linear import Trained
    from hpcml.prediction.predict import Prediction

BIOASQ, BIOASQ_BEGIN, BIOASQ_END = ".json", '{"documents": [', "\n]}\n"  # the ending of a file, and its first and last line
TEXT_VALUES = 1 << 20  # of a piece of text; labels with their names count fourfold


@dataclass
class ScoredRows:
    """Consecutive rows: scores of all labels (or flags if wanted), or of the best of each."""

    first: int  # the place of the first row in the split
    rows: np.ndarray  # row numbers of the dataset
    values: np.ndarray  # n × L, or n × k
    best: np.ndarray | None = None  # (n × k, int32) the labels of k values, best first
    empty: np.ndarray | None = None  # (n,) flags of rows of text without a known feature, which get no labels; None: there are none

    def labels(self, thresholds: np.ndarray | float = 0.0) -> list[list[int]]:
        """The best labels; or those of flags or scores above their thresholds (n_labels)."""
        found: list[list[int]]
        if self.best is not None:
            found = self.best.tolist()
        else:
            rows, labels = np.nonzero(self.values > thresholds)
            bounds = np.searchsorted(rows, np.arange(self.rows.size + 1))
            found = [labels[a:b].tolist() for a, b in pairwise(bounds)]
        for row in () if self.empty is None else np.flatnonzero(self.empty).tolist():
            found[row] = []
        return found

    def pieces(self) -> Iterator[ScoredRows]:
        """The rows in pieces of about TEXT_VALUES values, small enough to be formatted."""
        step = max(1, TEXT_VALUES // ((1 if self.best is None else 4) * max(1, self.values.shape[1])))
        for a in range(0, self.rows.size, step):
            some = slice(a, a + step)
            best, empty = (None if each is None else each[some] for each in (self.best, self.empty))
            yield ScoredRows(self.first + a, self.rows[some], self.values[some], best, empty)


What = Literal["scores", "labels", "probabilities"]


def check_what(what: str, top: int | None, ending: str = "") -> None:
    """Raise ConfigError unless rows can have this written about them, in a file of this ending. Local."""
    if what not in get_args(What):
        raise ConfigError(f"cannot predict {what!r}; expected one of {', '.join(get_args(What))}")
    if top is not None and what == "labels":
        raise ConfigError(
            "--labels writes the labels with a score above their threshold and --top the best ones; give only one of them"
        )
    if top is not None and top < 1:
        raise OptionError("top", top, "expected at least 1")
    if ending == BIOASQ and what == "probabilities":
        raise ConfigError("BioASQ's JSON holds labels without numbers; leave --probabilities out, or write .csv")
    if ending == BIOASQ and what != "labels" and top is None:
        raise ConfigError("BioASQ's JSON holds labels; give --labels (those above their thresholds) or --top (so many of each row)")


def what_is_written(what: str, top: int | None, model: Trained) -> str:
    """Its name in messages; of labels, also by which thresholds."""
    if what == "labels" and model.threshold_source:
        return f"labels, by thresholds ({model.threshold_source}),"
    if what == "probabilities":
        what = f"probabilities ({model.probability_source})"
    return what if top is None else f"best labels (--top {top}), {what}," if what != "scores" else f"best labels (--top {top})"


def csv_lines(prediction: Prediction, chunk: ScoredRows | None) -> str:
    """Lines `row,id?,score...` or `row,id?,labels`, best as `name:score`; a header for None."""
    scores_of_all = prediction.what != "labels" and prediction.n_best is None
    if chunk is None:
        wanted = prediction.model.label_names if scores_of_all else ["labels"]
        return csv_text([["row", *(["id"] if prediction.has_ids else []), *wanted]])
    ids = [[escaped_formula(name)] for name in prediction.ids(chunk.rows)] if prediction.has_ids else [[]] * chunk.rows.size
    cells: Iterator[list[object]]
    if scores_of_all:
        cells = (values.tolist() for values in prediction.shown(chunk.values))
    elif chunk.best is None:
        cells = ([escaped_formula(";".join(prediction.escaped_names[label] for label in labels))] for labels in chunk.labels())
    else:
        names, shown = prediction.escaped_names, prediction.shown(chunk.values, chunk.best).tolist()
        pairs = (zip(*row, strict=False) for row in zip(chunk.labels(), shown, strict=True))  # no labels for an empty row
        cells = ([escaped_formula(";".join(f"{names[label]}:{value!r}" for label, value in row))] for row in pairs)
    # as they are: a check of every score would take a tenth of the time
    return csv_text(([row, *name, *cell] for row, name, cell in zip(chunk.rows, ids, cells, strict=True)), as_is=True)


def svmlight_lines(prediction: Prediction, chunk: ScoredRows | None) -> str:
    """Lines `LABEL,LABEL l:score l:score ...`, or `LABEL,LABEL 1:1`, from 1. No header."""
    if chunk is None:
        return ""
    lines, thresholds = [], prediction.model.thresholds
    if chunk.best is not None:  # the best labels above their thresholds, then all of the best with their scores
        above, shown = chunk.values > thresholds[chunk.best], prediction.shown(chunk.values, chunk.best)
        for row in zip(chunk.labels(), shown.tolist(), above.tolist(), strict=True):
            ascending = sorted(zip(*row, strict=False))  # as readers expect; an empty row has no labels
            target = ",".join(str(label + 1) for label, _, given in ascending if given)
            rest = " ".join(f"{label + 1}:{value!r}" for label, value, _ in ascending) or "1:0"  # readers skip blank lines
            lines.append(f"{target} {rest}\n")
        return "".join(lines)
    given_labels = chunk.labels(0.0 if prediction.what == "labels" else thresholds)
    for labels, values in zip(given_labels, prediction.shown(chunk.values), strict=True):
        target = ",".join(str(label + 1) for label in labels)
        if prediction.what != "labels":
            rest = " ".join(f"{number}:{score!r}" for number, score in enumerate(values.tolist(), 1))
        else:
            rest = "1:1"  # readers skip blank lines, so a row without labels must not be one
        lines.append(f"{target} {rest}\n")
    return "".join(lines)


def bioasq_lines(prediction: Prediction, chunk: ScoredRows | None) -> str:
    """A line for each row of a chunk; the beginning for None. Raises DataError without ids."""
    if not prediction.has_ids:
        raise DataError("the rows have no ids, but BioASQ's JSON needs them (pmid); convert the data from a source with ids")
    if chunk is None:
        return BIOASQ_BEGIN
    names, lines = prediction.model.label_names, []
    for place, (name, some) in enumerate(zip(prediction.ids(chunk.rows), chunk.labels(), strict=True), chunk.first):
        pmid: int | str = int(name) if name.isascii() and name.isdigit() and str(int(name)) == name else name
        document = {"pmid": pmid, "labels": [names[label] for label in some]}
        lines.append(("," if place else "") + "\n" + json.dumps(document))
    return "".join(lines)


Lines: TypeAlias = "Callable[[Prediction, ScoredRows | None], str]"
TEXT_FORMATS: dict[str, Lines] = {".csv": csv_lines, ".svm": svmlight_lines, ".svmlight": svmlight_lines}
