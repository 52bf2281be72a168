"""Features of linear models: a label's by squared weight, and a row's by their share of its score.

C. Elkan, *Extreme multilabel learning* (2015), has the mass of the features that are not shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.conversion.vocabulary import PLAIN, Field, fields_of
from hpcml.data.dataset import DataFile
from hpcml.data.shard import slab_of, verify, without_features
from hpcml.errors import ConfigError, NonFiniteError, nearest
from hpcml.evaluation.titles import names_of_features, names_of_rows
from hpcml.files.hdf5 import NAME_CHUNK, readable
from hpcml.files.report import ReportedResult, cell, picked, plain
from hpcml.files.table import table
from hpcml.log import label_with_title, named, plural
from hpcml.model.linear import Model
from hpcml.model.scoring import Scorer
from hpcml.model.trained import Trained
from hpcml.partition import even_bounds, offsets

SHOWN = 5  # labels, where none are named
PER_CHUNK = 256  # labels that are sent together
BEST = 3  # labels of a row with the largest scores that are shown beside its own, where none are named
SHOWN_IDS = 1000  # that a wrong one is compared with


@dataclass
class LabelWeights:
    """A label's features (k) of the largest squared weights, of equal ones the lower number."""

    label: int
    features: np.ndarray
    weights: np.ndarray  # (k) float64
    n_weights: int  # that are not 0
    top: float  # the sum of the squares of `weights`
    remaining: float  # the sum of the squares of the others

    @property
    def mass(self) -> float:
        """The sum of all squared weights of the label."""
        return self.top + self.remaining

    def share(self, square: float) -> float:
        """A part of the mass; NaN if there is none, as the squares of the least weights may all be 0."""
        return square / self.mass if self.mass else math.nan


@dataclass
class Explanation(ReportedResult):
    """The features of some labels of a model, on rank 0; `names` of features, if they have any."""

    model: Model
    labels: list[LabelWeights]
    shown: np.ndarray  # labels that people are shown
    names: Mapping[int, str]
    fields: Sequence[Field]

    def describe(self) -> Iterator[str]:
        """Return a table for each label that people are shown."""
        model, by_label = self.model, {each.label: each for each in self.labels}
        yield f"{model.path}: {len(self.shown):,} of {plural(model.n_labels, 'label')}, {plural(model.n_features, 'feature')}"
        yield (
            "weight: what a value of 1 adds to the score; squared: its square; share: that square in % of all squares of the label"
        )
        if self.fields:
            kinds = (f"{f.tag} = {'value' if f.whole else 'word'} of {f.name}" for f in self.fields)
            yield "behind a feature stands its field: " + ", ".join(kinds)
        for label in self.shown.tolist():
            each, rows = by_label[label], plural(int(model.labels["n_positive"][label]), "training row")
            name = named(label_with_title(model.label_names[label], model.label_titles, label))
            yield from ["", f"{name}: {rows}, {plural(each.n_weights, 'feature')}, intercept {model.bias[label]:.4g}"]
            if not each.n_weights:
                yield "  no weights: every row has the same score"
                continue
            cells, rest = [["  feature", "weight", "squared", "share"]], plural(each.n_weights - each.features.size, "feature")
            columns = zip(each.features.tolist(), each.weights.tolist(), strict=True)
            lines = [(self.names[feature], f"{weight:.4g}", weight * weight) for feature, weight in columns]
            for name, weight, square in [*lines, (f"(remaining mass: {rest})", "", each.remaining)]:
                cells.append([f"  {name}", weight, f"{square:.4g}", cell(100 * each.share(square), ".2f")])
            yield from table(cells)

    def as_dict(self) -> dict[str, Any]:
        """Return everything, of all labels, for JSON."""
        model, by_tag, labels = self.model, {field.tag: field.name for field in self.fields}, []
        for each in self.labels:
            features = []
            for feature, weight in zip(each.features.tolist(), each.weights.tolist(), strict=True):
                name, square = self.names.get(feature), weight * weight
                of = {} if name is None or not by_tag else {"field": by_tag.get(name.rpartition(" ")[2])}
                features.append(
                    {"feature": feature, "name": name, **of, "weight": weight, "squared": square, "share": each.share(square)}
                )
            rest = {"n_features": each.n_weights - each.features.size, "squared": each.remaining}
            of_label = {
                "number": each.label,
                "label": model.label_names[each.label],
                **({"title": model.label_titles[each.label]} if model.label_titles else {}),
                "n_positive": model.labels["n_positive"][each.label],
                "intercept": model.bias[each.label],
                "n_features": each.n_weights,
                "mass": each.mass,
                "features": features,
                "remaining": {**rest, "share": each.share(each.remaining)},
            }
            labels.append(of_label)
        about = {"model": model.path, "n_labels": model.n_labels, "n_features": model.n_features}
        return dict(plain({**about, "fields": self.fields, "labels": labels}))


class Features:
    """Which features stand in each column of a model, and with which factor."""

    def __init__(self, model: Model) -> None:
        factors = np.asarray(model.factors)
        present = np.flatnonzero(factors)
        self.model = model
        self.features = present[np.argsort(model.columns[present], kind="stable")]
        self.factors = factors[self.features].astype(np.float64)
        self.begins = offsets(np.bincount(model.columns[present], minlength=model.n_columns))

    def weights(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        """The features (ascending) with a weight of a label, and these weights (float64)."""
        columns, w = self.model.row(label)
        sizes = self.begins[columns + 1] - self.begins[columns]
        ends = offsets(sizes)
        places = np.arange(ends[-1]) + np.repeat(self.begins[columns] - ends[:-1], sizes)
        features, weights = self.features[places], np.repeat(w.astype(np.float64), sizes) * self.factors[places]
        order = np.argsort(features, kind="stable")
        order = order[weights[order] != 0]
        return features[order], weights[order]

    def largest(self, label: int, top: int) -> LabelWeights:
        """The `top` features of a label. Raises NonFiniteError if squares are no numbers."""
        features, weights = self.weights(label)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = weights * weights
        if not np.isfinite(squares).all():
            name = self.model.label_names[label]
            raise NonFiniteError(f"{self.model.path}: the squared weights of label {name!r} are not finite; train it again")
        found = np.arange(features.size)
        if features.size > top:
            found = np.flatnonzero(squares >= np.partition(squares, features.size - top)[features.size - top])
        best = found[np.lexsort((features[found], -squares[found]))[:top]]
        remaining = float(np.delete(squares, best).sum())
        return LabelWeights(label, features[best], weights[best], features.size, float(squares[best].sum()), remaining)


def labels_to_show(model: Trained, wanted: Sequence[str]) -> np.ndarray:
    """The labels of these names, or the SHOWN of most training rows. Raises ConfigError."""
    if not wanted:
        return np.argsort(-np.asarray(model.labels["n_positive"]), kind="stable")[:SHOWN]
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(model.label_names):
        numbers.setdefault(name, []).append(number)
    for name in wanted:
        if name not in numbers:
            raise ConfigError(f"{model.path}: no label {name!r}; {nearest(name, numbers, 'hpcml evaluate --csv')}")
    return np.array([number for name in dict.fromkeys(wanted) for number in numbers[name]], dtype=np.int64)


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


def explain(comm: mpi.Comm, model: Trained, wanted: Sequence[str], top: int, every: bool | np.ndarray) -> Explanation | None:
    """Collective over `comm`. The `top` features of the labels `wanted`; on rank 0, None elsewhere.

    Without names these are the labels of most training rows; with `every` all labels are explained,
    or those with the numbers that it is, though people are shown a few. Raises ConfigError for a label that the model does not
    have or a classifier; NonFiniteError for weights that are no numbers.
    """
    model = check_weights(model, "explain")
    with mpi.agreed(comm, f"reading {model.path}"):
        shown = labels_to_show(model, wanted)
        labels = shown if wanted or every is False else np.arange(model.n_labels)
        labels = every if isinstance(every, np.ndarray) else labels
        features = Features(model)
    begin, end = even_bounds(labels.size, comm.size)[comm.rank : comm.rank + 2].tolist()
    found: list[LabelWeights] = []
    chunks = (labels[first : min(first + PER_CHUNK, end)].tolist() for first in range(begin, end, PER_CHUNK))
    mpi.stream_to_root(comm, ([features.largest(label, top) for label in chunk] for chunk in chunks), found.extend)
    explanation = None
    with mpi.agreed(comm, f"reading {model.path}"):
        if comm.rank == 0:
            names = names_of_features(model, (feature for each in found for feature in each.features.tolist()))
            with readable(model.path, "hpcml train", "model"):
                fields = fields_of({} if model.raw_input is None else model.raw_input.attributes)
            explanation = Explanation(model, found, shown, names, () if fields == PLAIN else fields)
    return explanation


@dataclass
class Why:
    """A label's score for a row = intercept + Σ contributions, but for the rounding of each sum."""

    row: int
    label: str
    is_true: bool | None  # None: nobody labelled the row
    score: float
    threshold: float
    intercept: float  # of models whose scores are divided by a row's sum, after that
    features: np.ndarray  # (k) those of the row that have a weight, the largest |contribution| first
    values: np.ndarray  # (k) as the model sees them
    weights: np.ndarray  # (k), of a normalised model after the division
    n_without: int  # features of the row without a weight
    has_features: bool = True  # text without a known feature gets no label

    @property
    def is_given(self) -> bool:
        """Whether the row gets the label: if it has features, and the score is above the threshold."""
        return self.has_features and self.score > self.threshold

    @property
    def contributions(self) -> np.ndarray:
        """Value × weight (k)."""
        return self.values * self.weights

    @property
    def total(self) -> float:
        """The sum of the contributions and the intercept."""
        return math.fsum([self.intercept, *self.contributions.tolist()])


@dataclass
class WhyRows(ReportedResult):
    """Why some rows got some labels, and what rows and features are called."""

    model: Model
    data: str
    found: list[Why]
    top: int  # features that are shown
    row_ids: Mapping[int, str]
    names: Mapping[int, str]

    def describe(self) -> Iterator[str]:
        """Return a table for each row and label."""
        yield f"{self.model.path} on {self.data}"
        yield (
            "contribution: value × weight, what the feature adds to the score; "
            "the contributions and the intercept add up to the score"
        )
        for each in self.found:
            row = named(self.row_ids[each.row])
            rightly = "and rightly" if each.is_given == each.is_true else "but wrongly"
            rightly = "nobody labelled the row" if each.is_true is None else rightly
            above = "above" if each.score > each.threshold else "not above"
            score = f"score {each.score:.4g}, {above} the threshold {each.threshold:.4g}"
            given = "given" if each.is_given else "not given" if each.has_features else "not given (no known feature)"
            yield from ["", f"{row}, label {named(each.label)}: {score}: {given}, {rightly}"]
            contributions, rest = each.contributions.tolist(), max(0, each.features.size - self.top)
            cells = [["  feature", "value", "weight", "contribution"]]
            columns = zip(each.features.tolist(), each.values, each.weights, contributions, strict=True)
            for feature, value, weight, added in islice(columns, self.top):
                cells.append([f"  {self.names[feature]}", f"{value:.4g}", f"{weight:.4g}", f"{added:+.4g}"])
            others = {f"({plural(rest, 'other feature')})": math.fsum(contributions[self.top :])} if rest else {}
            for name, sum_of in (others | {"(intercept)": each.intercept, "(sum)": each.total}).items():
                cells.append([f"  {name}", "", "", f"{sum_of:+.4g}"])
            yield from table(cells)
            if each.n_without:
                yield f"  {plural(each.n_without, 'feature')} of the row without a weight"

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        scores, keys = [], ("feature", "name", "value", "weight", "contribution")
        for each in self.found:
            names = map(self.names.get, each.features.tolist())
            columns = zip(each.features, names, each.values, each.weights, each.contributions, strict=True)
            of_score = {
                "row": each.row,
                "id": self.row_ids.get(each.row),
                "label": each.label,
                "true": each.is_true,
                "given": each.is_given,
                **picked(each, "score", "threshold", "intercept"),
                "features": [dict(zip(keys, column, strict=True)) for column in columns],
                "n_features_without_weight": each.n_without,
            }
            scores.append(of_score)
        return dict(plain({"model": self.model.path, "data": self.data, "scores": scores}))


def why(comm: mpi.Comm, model: Trained, dataset: DataFile, rows: Sequence[str], wanted: Sequence[str], top: int) -> WhyRows:
    """Collective over `comm`. What features of rows add to scores of labels, on all ranks.

    `rows` are ids, or numbers (from 0) if the data have no ids. The labels are those named `wanted`, or those of the row, those
    that it is given, and the BEST. Raises ConfigError for a row or label that is not there, or a model without one weight for a
    feature; DataError for other features, NonFiniteError for scores that are no numbers.
    """
    model, doing = check_weights(model, "explain --row"), f"reading {dataset.path}"
    with mpi.agreed(comm, doing):
        model.check_vocabulary(dataset)
        labels = labels_to_show(model, wanted) if wanted else None
    numbers = np.array(mpi.run_on_root(comm, doing, lambda: numbers_of_rows(dataset, rows)), dtype=np.int64)
    with mpi.agreed(comm, doing):
        places = np.unique(numbers)
        shard = slab_of(dataset, places, 0, places.size)
        verify(dataset, shard)
        of_data = dataset.label_names()
        labelled, empty = set(dataset.labelled(places).tolist()), without_features(dataset, shard)
        dataset.check_unchanged()
    # the scores (n × L) of the same rows on all ranks, each of which makes those of some labels
    scorer = Scorer(model, shard, np.arange(model.n_labels) if labels is None else np.sort(labels))
    scorer.warm_up(comm)
    scores = np.zeros((scorer.rows.size, scorer.labels.size))
    with mpi.agreed(comm, "scoring rows"):
        for block in scorer.blocks[comm.rank :: comm.size]:
            scores[:, slice(*block)] = scorer.score_rows(scorer.rows, *scorer.weights(*block))
    mpi.allreduce_sum(comm, scores.reshape(-1))
    if not np.isfinite(scores).all():  # the same on all ranks
        raise NonFiniteError(f"{model.path}: a score is not a finite number; train it again")
    with mpi.agreed(comm, f"reading {model.path}"):
        features, found = Features(model), []
        for row in numbers.tolist():
            place = int(np.searchsorted(places, row))
            begin, end = shard.y_indptr[shard.rows[place] : shard.rows[place] + 2].tolist()
            true = {of_data[label] for label in shard.y_indices[begin:end].tolist()}
            shown = labels
            if shown is None:  # those that are true, given, or among the BEST, the largest scores first
                order = np.argsort(-scores[place], kind="stable")
                some = (scores[place] > model.thresholds) | np.array([name in true for name in model.label_names])
                some[order[:BEST]] = True
                shown = order[some[order]]
            for label in shown.tolist():
                score = float(scores[place, np.searchsorted(scorer.labels, label)])
                apart = explain_score(
                    scorer, features, int(shard.rows[place]), row, label, score, true if row in labelled else None
                )
                found.append(replace(apart, has_features=not empty[place]))
        ids = names_of_rows(dataset, places.tolist())
        names = names_of_features(model, (feature for each in found for feature in each.features.tolist()))
    return WhyRows(model, str(dataset.path), found, top, ids, names)


def explain_score(scorer: Scorer, features: Features, place: int, row: int, label: int, score: float, true: set[str] | None) -> Why:
    """Explain the score of one label for one row of the scorer's shard (with these `true` labels). Local."""
    model, (indptr, indices, data) = scorer.model, scorer.csr
    begin, end = indptr[place : place + 2].tolist()
    own, values = indices[begin:end].astype(np.int64), data[begin:end].astype(np.float64)
    with_weight, weights = features.weights(label)
    divisor = float(scorer.compute_divisors(np.array([place]))[0])
    has = np.isin(own, with_weight)
    own, values = own[has], values[has]
    weights = weights[np.searchsorted(with_weight, own)] / divisor
    order = np.lexsort((own, -np.abs(values * weights)))
    name = model.label_names[label]
    return Why(
        row=row,
        label=name,
        is_true=None if true is None else name in true,
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
