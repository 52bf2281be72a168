"""Why a row got a label from a linear model: what each of its features adds to the score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import slab_of
from hpcml.errors import ConfigError, NonFiniteError, nearest
from hpcml.evaluation.explain import Features, labels_to_show
from hpcml.evaluation.scoring import Scorer
from hpcml.evaluation.titles import names_by_number
from hpcml.files.hdf5 import NAME_CHUNK, readable
from hpcml.files.table import table
from hpcml.log import joined, named
from hpcml.model.linear import Model, Trained

BEST = 3  # labels of a row with the largest scores that are shown beside its own, where none are named
SHOWN_IDS = 1000  # that a wrong one is compared with


@dataclass
class Why:
    """A label's score for a row = intercept + Σ contributions, but for the rounding of each sum."""

    row: int
    label: str
    is_true: bool
    score: float
    threshold: float
    intercept: float  # of models whose scores are divided by a row's sum, after that
    features: np.ndarray  # (k) those of the row that have a weight, the largest |contribution| first
    values: np.ndarray  # (k) as the model sees them
    weights: np.ndarray  # (k), of a normalised model after the division
    n_without: int  # features of the row without a weight

    @property
    def is_given(self) -> bool:
        """Whether the score is above the threshold."""
        return self.score > self.threshold

    @property
    def contributions(self) -> np.ndarray:
        """Value × weight (k)."""
        product: np.ndarray = self.values * self.weights
        return product

    @property
    def total(self) -> float:
        """The sum of the contributions and the intercept."""
        return math.fsum([self.intercept, *self.contributions.tolist()])


@dataclass
class WhyRows:
    """Why some rows got some labels, and what rows and features are called."""

    model: Model
    data: str
    found: list[Why]
    top: int  # features that are shown
    row_ids: dict[int, str]
    names: dict[int, str]

    def __str__(self) -> str:
        lines = [
            f"{self.model.path} on {self.data}",
            "contribution: value × weight, what the feature adds to the score; "
            "the contributions and the intercept add up to the score",
        ]
        for each in self.found:
            row = named(self.row_ids.get(each.row, f"row {each.row}"))
            rightly = "and rightly" if each.is_given == each.is_true else "but wrongly"
            score = f"score {each.score:.4g}, {'above' if each.is_given else 'not above'} the threshold {each.threshold:.4g}"
            lines += ["", f"{row}, label {named(each.label)}: {score}: {'given' if each.is_given else 'not given'}, {rightly}"]
            cells, contributions = [["  feature", "value", "weight", "contribution"]], each.contributions
            for k, feature in enumerate(each.features[: self.top].tolist()):
                name = self.names.get(feature, f"feature {feature}")
                cells.append([f"  {name}", f"{each.values[k]:.4g}", f"{each.weights[k]:.4g}", f"{contributions[k]:+.4g}"])
            rest = each.features.size - min(self.top, each.features.size)
            if rest:
                others = math.fsum(contributions[self.top :].tolist())
                cells.append([f"  ({rest:,} other feature{'s' * (rest > 1)})", "", "", f"{others:+.4g}"])
            cells += [["  (intercept)", "", "", f"{each.intercept:+.4g}"], ["  (sum)", "", "", f"{each.total:+.4g}"]]
            lines += table(cells)
            if each.n_without:
                lines.append(f"  {each.n_without:,} feature{'s' * (each.n_without > 1)} of the row without a weight")
        return joined(lines)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {"model": str(self.model.path), "data": self.data, "scores": [self._as_dict(each) for each in self.found]}

    def _as_dict(self, each: Why) -> dict[str, Any]:
        names = [self.names.get(feature) for feature in each.features.tolist()]
        numbers = (each.values.tolist(), each.weights.tolist(), each.contributions.tolist())
        columns = zip(each.features.tolist(), names, *numbers, strict=True)
        keys = ("feature", "name", "value", "weight", "contribution")
        return {
            "row": each.row,
            "id": self.row_ids.get(each.row),
            "label": each.label,
            "true": each.is_true,
            "given": each.is_given,
            "score": each.score,
            "threshold": each.threshold,
            "intercept": each.intercept,
            "features": [dict(zip(keys, column, strict=True)) for column in columns],
            "n_features_without_weight": each.n_without,
        }


def check_weights(model: Trained, doing: str) -> Model:
    """The model itself. Raises ConfigError if a label has not one weight for a feature."""
    if not isinstance(model, Model):
        raise ConfigError(f"{model.path}: a classifier has no weights of features; {doing} takes linear models")
    if model.combination is not None:
        raise ConfigError(
            f"{model.path}: its labels have several weights for a feature, combined by a rule, so that no feature adds a fixed "
            f"amount to a score; {doing} takes models with one weight vector for each label"
        )
    return model


def why(comm: mpi.Comm, model: Trained, dataset: DataFile, rows: Sequence[str], wanted: Sequence[str], top: int) -> WhyRows:
    """Collective over `comm`. What features of rows add to scores of labels, on all ranks.

    `rows` are ids, or numbers (from 0) if the data have no ids. The labels are those named
    `wanted`, or those of the row, those that it is given, and the BEST. Raises ConfigError for a
    row or label that is not there, or a model without one weight for a feature; DataError for other
    features, NonFiniteError for scores that are no numbers.
    """
    if top < 1:
        raise ConfigError(f"--top {top}: expected at least 1")
    model, chosen = check_weights(model, "explain --row"), None
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
        labels = labels_to_show(model, wanted) if wanted else None
        if comm.rank == 0:
            chosen = numbers_of_rows(dataset, rows)
    numbers: np.ndarray = np.array(comm.bcast(chosen), dtype=np.int64)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        places = np.unique(numbers)
        shard = slab_of(dataset, places, 0, places.size)
        of_data = dataset.label_names()
        dataset.check_unchanged()
    scorer = Scorer(model, shard, np.arange(model.n_labels) if labels is None else np.sort(labels))
    scores = _all_scores(comm, scorer)
    with mpi.agreed(comm, f"reading {model.path}"):
        features, found = Features(model), []
        for row in numbers.tolist():
            place = int(np.searchsorted(places, row))
            begin, end = shard.y_indptr[shard.rows[place] : shard.rows[place] + 2].tolist()
            true = {of_data[label] for label in shard.y_indices[begin:end].tolist()}
            for label in _labels_of(scorer, scores[place], true) if labels is None else labels.tolist():
                score = float(scores[place, np.searchsorted(scorer.labels, label)])
                found.append(taken_apart(scorer, features, int(shard.rows[place]), row, label, score, true))
        parts = np.unique(np.concatenate([np.zeros(0, np.int64), *(each.features for each in found)]))
        ids, names = names_by_number(dataset, places, "row_ids"), names_by_number(dataset, parts)
    return WhyRows(model, str(dataset.path), found, top, ids, names)


def _all_scores(comm: mpi.Comm, scorer: Scorer) -> np.ndarray:
    """Collective over `comm`. The scores (n × L) of the same rows; each rank makes some labels'."""
    scorer.warm_up(comm)
    scores = np.zeros((scorer.rows.size, scorer.labels.size))
    with mpi.agreed(comm, "scoring rows"):
        for begin, end in scorer.blocks[comm.rank :: comm.size]:
            scores[:, begin:end] = scorer.rows_scores(scorer.rows, *scorer.weights(begin, end))
    mpi.allreduce_sum(comm, scores.reshape(-1))
    if not np.isfinite(scores).all():  # the same on all ranks
        raise NonFiniteError(f"{scorer.model.path}: a score is not a finite number; train it again")
    return scores


def _labels_of(scorer: Scorer, scores: np.ndarray, true: set[str]) -> list[int]:
    """The labels of a row that are true, given, or among the BEST, the largest scores first."""
    names, thresholds = scorer.model.label_names, scorer.model.thresholds[scorer.labels]
    order = np.argsort(-scores, kind="stable")
    some = scores > thresholds
    some[order[:BEST]] = True
    some |= np.array([names[label] in true for label in scorer.labels.tolist()], dtype=bool)
    return [int(scorer.labels[place]) for place in order.tolist() if some[place]]


def taken_apart(scorer: Scorer, features: Features, place: int, row: int, label: int, score: float, true: set[str]) -> Why:
    """The score of one label for one row of the scorer's shard, taken apart. Local."""
    model, (indptr, indices, data) = scorer.model, scorer.csr
    begin, end = indptr[place : place + 2].tolist()
    own, values = indices[begin:end].astype(np.int64), data[begin:end].astype(np.float64)
    with_weight, weights = features.weights(label)
    divisor = float(scorer.divisors(np.array([place]))[0])
    has = np.isin(own, with_weight)
    own, values = own[has], values[has]
    weights = weights[np.searchsorted(with_weight, own)] / divisor
    order = np.lexsort((own, -np.abs(values * weights)))
    name = model.label_names[label]
    return Why(
        row=row,
        label=name,
        is_true=name in true,
        score=score,
        threshold=float(model.thresholds[label]),
        intercept=float(model.bias[label]) / divisor,
        features=own[order],
        values=values[order],
        weights=weights[order],
        n_without=int((~has).sum()),
    )


def numbers_of_rows(dataset: DataFile, wanted: Iterable[str]) -> list[int]:
    """The rows' numbers, by their ids or, without any, by number. Raises ConfigError, DataError."""
    names = dict.fromkeys(wanted)
    if "row_ids" not in dataset.file:
        for name in names:
            if not (name.isascii() and name.isdecimal() and int(name) < dataset.n_rows):
                least = f"its rows have no ids: name them by number, 0 to {dataset.n_rows - 1}"
                raise ConfigError(f"{dataset.path}: no row {name!r}; {least}")
        return [int(name) for name in names]
    number: dict[str, int] = {}
    some: list[str] = []
    with readable(dataset.path, "hpcml convert", "dataset"):
        for begin in range(0, dataset.n_rows, NAME_CHUNK):
            ids = dataset.strings("row_ids", begin, begin + NAME_CHUNK) or []
            some = some or ids[:SHOWN_IDS]
            for row, name in enumerate(ids, begin):
                if name in names:
                    number.setdefault(name, row)  # the first of that id
    for name in names:
        if name not in number:
            raise ConfigError(f"{dataset.path}: no row with the id {name!r}; {nearest(name, some, 'hpcml predict')}")
    return [number[name] for name in names]
