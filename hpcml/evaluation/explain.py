"""The most important features of labels, by squared weight, and of predictions, by contribution to the score, for linear models.

C. Elkan, *Extreme multilabel learning* (2015), reports the mass (sum of squares) of the weights that are not shown.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.conversion.vocabulary import PLAIN, Field, fields_of
from hpcml.data.dataset import DataFile, numbers_of
from hpcml.data.shard import mask_empty_texts, read_slab, verify
from hpcml.errors import ConfigError, NonFiniteError, nearest
from hpcml.evaluation.titles import names_of_features, names_of_rows
from hpcml.files.hdf5 import readable
from hpcml.files.report import ReportedResult, cell, plain, select_attributes
from hpcml.files.table import table
from hpcml.log import label_with_title, named, plural
from hpcml.model.linear import Model
from hpcml.model.scoring import Scorer
from hpcml.model.trained import Trained
from hpcml.partition import entries_of, even_range, offsets

N_LABELS_SHOWN = 5  # if no label is named
LABELS_PER_MESSAGE = 256
N_BEST = 3  # labels of a row with the largest scores that are explained, if no label is named
N_IDS_COMPARED = 1000  # ids that may be suggested for an unknown one
LONGEST = 60  # characters of a feature in a table of 100 columns


@dataclass
class LabelWeights:
    """The features (k) of a label with the largest squared weights; lower numbers first among equal ones."""

    label: int
    features: np.ndarray
    weights: np.ndarray  # (k) float64
    n_weights: int  # non-zero weights of the label
    top: float  # sum of the squares of `weights`
    remaining: float  # sum of the squares of the other weights

    @property
    def mass(self) -> float:
        return self.top + self.remaining

    def share(self, square: float) -> float:
        """Return a part of the mass as a fraction; NaN if all squares are 0, as those of tiny weights may be."""
        return square / self.mass if self.mass else math.nan


@dataclass
class Explanation(ReportedResult):
    """The most important features of labels of a linear model, on rank 0.

    Attributes
    ----------
    model : Model
        The model.
    labels : list of LabelWeights
        For each explained label its features, their weights (float64) and the mass of the others.
    shown : ndarray
        Numbers of the labels in the text.
    names : mapping
        Names of features by number.
    fields : sequence of Field
        Fields of the text and their tags, if the model has several.

    Examples
    --------
    >>> print(hpcml.explain("run", label=["sea"], top=20))
    """

    model: Model
    labels: list[LabelWeights]
    shown: np.ndarray
    names: Mapping[int, str]
    fields: Sequence[Field]

    def describe(self) -> Iterator[str]:
        model, by_label = self.model, {each.label: each for each in self.labels}
        yield f"{model.path}: {len(self.shown):,} of {plural(model.n_labels, 'label')}, {plural(model.n_features, 'feature')}"
        yield "weight: added to the score by a value of 1; share: squared weight in % of all squared weights of the label"
        if self.fields:
            kinds = (f"{f.tag} = {'value' if f.whole else 'word'} of {f.name}" for f in self.fields)
            yield "a feature ends with the tag of its field: " + ", ".join(kinds)
        for label in self.shown.tolist():
            each, rows = by_label[label], plural(int(model.labels["n_positive"][label]), "training row")
            name = named(label_with_title(model.label_names[label], model.label_titles, label))
            yield from ["", f"{name}: {rows}, {plural(each.n_weights, 'feature')}, intercept {model.bias[label]:.4g}"]
            if not each.n_weights:
                yield "  no weights: all rows have the same score"
                continue
            cells = [["  feature", "weight", "squared", "share"]]
            others = plural(each.n_weights - each.features.size, "other feature")
            columns = zip(each.features.tolist(), each.weights.tolist(), strict=True)
            lines = [(named(self.names[feature], LONGEST), f"{weight:.4g}", weight * weight) for feature, weight in columns]
            for name, weight, square in [*lines, (f"({others})", "", each.remaining)]:
                cells.append([f"  {name}", weight, f"{square:.4g}", cell(100 * each.share(square), ".2f")])
            yield from table(cells)

    def as_dict(self) -> dict[str, Any]:
        """Return everything, of all explained labels, for JSON."""
        model, by_tag, labels = self.model, {field.tag: field.name for field in self.fields}, []
        for each in self.labels:
            features = []
            for feature, weight in zip(each.features.tolist(), each.weights.tolist(), strict=True):
                name, square = self.names.get(feature), weight * weight
                field = {} if name is None or not by_tag else {"field": by_tag.get(name.rpartition(" ")[2])}
                values = {"weight": weight, "squared": square, "share": each.share(square)}
                features.append({"feature": feature, "name": name, **field, **values})
            remaining = {"n_features": each.n_weights - each.features.size, "squared": each.remaining}
            of_label = {
                "number": each.label,
                "label": model.label_names[each.label],
                **({"title": model.label_titles[each.label]} if model.label_titles else {}),
                "n_positive": model.labels["n_positive"][each.label],
                "intercept": model.bias[each.label],
                "n_features": each.n_weights,
                "mass": each.mass,
                "features": features,
                "remaining": {**remaining, "share": each.share(each.remaining)},
            }
            labels.append(of_label)
        about = {"model": model.path, "n_labels": model.n_labels, "n_features": model.n_features}
        return dict(plain({**about, "fields": self.fields, "labels": labels}))


class Features:
    def __init__(self, model: Model) -> None:
        factors = np.asarray(model.factors)
        present = np.flatnonzero(factors)
        self.model = model
        self.features = present[np.argsort(model.columns[present], kind="stable")]
        self.factors = factors[self.features].astype(np.float64)
        self.begins = offsets(np.bincount(model.columns[present], minlength=model.n_columns))

    def weights(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        columns, w = self.model.row(label)
        sizes, positions = entries_of(self.begins, columns)
        features, weights = self.features[positions], np.repeat(w.astype(np.float64), sizes) * self.factors[positions]
        order = np.argsort(features, kind="stable")
        order = order[weights[order] != 0]
        return features[order], weights[order]

    def largest(self, label: int, top: int) -> LabelWeights:
        """Return the `top` features of a label. Raises NonFiniteError if a squared weight is not finite."""
        features, weights = self.weights(label)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = weights * weights
        if not np.isfinite(squares).all():
            name = self.model.label_names[label]
            raise NonFiniteError(f"{self.model.path}: the squared weights of label {name!r} are not finite; train it again")
        candidates = np.arange(features.size)
        if features.size > top:
            candidates = np.flatnonzero(squares >= np.partition(squares, features.size - top)[features.size - top])
        best = candidates[np.lexsort((candidates, -squares[candidates]))[:top]]
        remaining = float(np.delete(squares, best).sum())
        return LabelWeights(label, features[best], weights[best], features.size, float(squares[best].sum()), remaining)


def select_labels(model: Trained, names: Sequence[str]) -> np.ndarray:
    """Return the labels with these names, or the labels with most training rows. Raises ConfigError for an unknown name."""
    if not names:
        return np.argsort(-np.asarray(model.labels["n_positive"]), kind="stable")[:N_LABELS_SHOWN]
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(model.label_names):
        numbers.setdefault(name, []).append(number)
    for name in names:
        if name not in numbers:
            raise ConfigError(f"{model.path}: no label {name!r}; {nearest(name, numbers, 'hpcml evaluate --csv')}")
    return np.array([number for name in dict.fromkeys(names) for number in numbers[name]], dtype=np.int64)


def check_weights(model: Trained, command: str) -> Model:
    if not isinstance(model, Model):
        raise ConfigError(f"{model.path}: a classifier has no weights of features; {command} needs a linear model")
    if model.combination is not None:
        raise ConfigError(
            f"{model.path}: its labels combine several weights per feature, so no feature adds a fixed amount to a score; "
            f"{command} needs a model with one weight vector per label"
        )
    return model


def explain(comm: mpi.Comm, model: Trained, names: Sequence[str], top: int, every: bool | np.ndarray) -> Explanation | None:
    """Return the `top` features of the named labels, on rank 0, else None. Collective over `comm`.

    Without names the text is about the labels with most training rows; the result has all labels if `every` is true, or the labels
    whose numbers `every` holds. Raises ConfigError for an unknown label or a classifier, NonFiniteError for non-finite weights.
    """
    model = check_weights(model, "explain")
    with mpi.agreed(comm, f"reading {model.path}"):
        labels_in_text = select_labels(model, names)
        labels = labels_in_text if names or every is False else np.arange(model.n_labels)
        labels = every if isinstance(every, np.ndarray) else labels
        features = Features(model)
    begin, end = even_range(labels.size, comm.rank, comm.size)
    explained: list[LabelWeights] = []
    chunks = (labels[first : min(first + LABELS_PER_MESSAGE, end)].tolist() for first in range(begin, end, LABELS_PER_MESSAGE))
    mpi.stream_to_root(comm, ([features.largest(label, top) for label in chunk] for chunk in chunks), explained.extend)
    explanation = None
    with mpi.agreed(comm, f"reading {model.path}"):
        if comm.rank == 0:
            feature_names = names_of_features(model, (feature for each in explained for feature in each.features.tolist()))
            with readable(model.path, "hpcml train", "model"):
                fields = fields_of({} if model.raw_input is None else model.raw_input.attributes)
            explanation = Explanation(model, explained, labels_in_text, feature_names, () if fields == PLAIN else fields)
    return explanation


@dataclass
class Why:
    """The score of a label for a row: intercept + Σ contributions, both divided by the row's sum in a normalised model."""

    row: int
    label: str
    is_true: bool | None  # None: the row is unlabelled
    score: float
    threshold: float
    intercept: float
    features: np.ndarray  # (k) features of the row with a weight, by decreasing |contribution|
    values: np.ndarray  # (k) as the model uses them
    weights: np.ndarray  # (k)
    n_without: int  # features of the row without a weight
    has_features: bool = True  # text without a known feature gets no label

    @property
    def is_given(self) -> bool:
        return self.has_features and self.score > self.threshold

    @property
    def contributions(self) -> np.ndarray:
        return self.values * self.weights

    @property
    def total(self) -> float:
        return math.fsum([self.intercept, *self.contributions.tolist()])


@dataclass
class WhyRows(ReportedResult):
    """Contributions of features to the scores of labels for rows.

    Attributes
    ----------
    model : Model
        The model.
    scores : list of Why
        For each row and label the score, the threshold and the contributions of the row's features.
    top : int
        Number of features in the text.
    row_ids, names : mapping
        Ids of rows and names of features by number.

    Examples
    --------
    >>> hpcml.explain("run", "docs.h5", row=["17"]).scores[0].contributions
    """

    model: Model
    data: str
    scores: list[Why]
    top: int
    row_ids: Mapping[int, str]
    names: Mapping[int, str]

    def describe(self) -> Iterator[str]:
        yield f"{self.model.path} on {self.data}"
        yield "contribution: value × weight; score = intercept + sum of all contributions"
        for each in self.scores:
            row, truth = named(self.row_ids[each.row]), "true label" if each.is_true else "not a true label"
            above = "above" if each.score > each.threshold else "not above"
            absent = "not predicted" if each.has_features else "not predicted (no known feature)"
            predicted = "predicted" if each.is_given else absent
            verdict = f"{predicted}, {'the row is unlabelled' if each.is_true is None else truth}"
            yield from ["", f"{row}, label {named(each.label)}: {verdict}"]
            yield f"  score {each.score:.4g}, {above} the threshold {each.threshold:.4g}"
            contributions, n_others = each.contributions.tolist(), max(0, each.features.size - self.top)
            cells = [["  feature", "value", "weight", "contribution"]]
            columns = (each.features[: self.top].tolist(), each.values, each.weights, contributions)
            for feature, value, weight, added in zip(*columns, strict=False):
                cells.append([f"  {named(self.names[feature], LONGEST)}", f"{value:.4g}", f"{weight:.4g}", f"{added:+.4g}"])
            others = {f"({plural(n_others, 'other feature')})": math.fsum(contributions[self.top :])} if n_others else {}
            for name, total in (others | {"(intercept)": each.intercept, "(sum)": each.total}).items():
                cells.append([f"  {name}", "", "", f"{total:+.4g}"])
            yield from table(cells)
            if each.n_without:
                yield f"  {plural(each.n_without, 'feature')} of the row without a weight"

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        scores, keys = [], ("feature", "name", "value", "weight", "contribution")
        for each in self.scores:
            names = map(self.names.get, each.features.tolist())
            columns = zip(each.features, names, each.values, each.weights, each.contributions, strict=True)
            of_score = {
                "row": each.row,
                "id": self.row_ids.get(each.row),
                "label": each.label,
                "true": each.is_true,
                "given": each.is_given,
                **select_attributes(each, "score", "threshold", "intercept"),
                "features": [dict(zip(keys, column, strict=True)) for column in columns],
                "n_features_without_weight": each.n_without,
            }
            scores.append(of_score)
        return dict(plain({"model": self.model.path, "data": self.data, "scores": scores}))


def explain_rows(
    comm: mpi.Comm, model: Trained, dataset: DataFile, row_names: Sequence[str], label_names: Sequence[str], top: int
) -> WhyRows:
    """Explain the scores of labels for rows, on all ranks. Collective over `comm`.

    Rows are named by id, or by number (from 0) if the dataset has no ids. Without label names the labels are the true, the
    predicted and the N_BEST labels of each row. Raises ConfigError for an unknown row or label, or a model without one weight per
    feature; DataError for other features, NonFiniteError for scores that are not finite.
    """
    model, doing = check_weights(model, "explain --row"), f"reading {dataset.path}"
    with mpi.agreed(comm, doing):
        model.check_vocabulary(dataset)
        requested = select_labels(model, label_names) if label_names else None
    numbers = np.array(mpi.run_on_root(comm, doing, lambda: numbers_of_rows(dataset, row_names)), dtype=np.int64)
    with mpi.agreed(comm, doing):
        rows = np.unique(numbers)
        shard = read_slab(dataset, rows, 0, rows.size)
        verify(dataset, shard)
        data_names = dataset.label_names()
        labelled, empty = set(dataset.labelled(rows).tolist()), mask_empty_texts(dataset, shard)
        dataset.check_unchanged()
    # the scores (n × L) of the same rows on all ranks; each rank computes those of some labels
    scorer = Scorer(model, shard, np.arange(model.n_labels) if requested is None else np.sort(requested))
    scorer.warm_up(comm)
    scores = np.zeros((scorer.rows.size, scorer.labels.size))
    with mpi.agreed(comm, "scoring rows"):
        for block in scorer.blocks[comm.rank :: comm.size]:
            scores[:, slice(*block)] = scorer.score_rows(scorer.rows, *scorer.weights(*block))
    mpi.allreduce_sum(comm, scores.reshape(-1))
    if not np.isfinite(scores).all():  # the same on all ranks
        raise NonFiniteError(f"{model.path}: a score is not a finite number; train it again")
    with mpi.agreed(comm, f"reading {model.path}"):
        features, explained = Features(model), []
        for row in numbers.tolist():
            i = int(np.searchsorted(rows, row))
            begin, end = shard.y_indptr[shard.rows[i] : shard.rows[i] + 2].tolist()
            true = {data_names[label] for label in shard.y_indices[begin:end].tolist()}
            labels = requested
            if labels is None:  # the largest scores first
                order = np.argsort(-scores[i], kind="stable")
                selected = (scores[i] > model.thresholds) | np.array([name in true for name in model.label_names])
                selected[order[:N_BEST]] = True
                labels = order[selected[order]]
            true_or_unknown, position = true if row in labelled else None, int(shard.rows[i])
            for label in labels.tolist():
                score = float(scores[i, np.searchsorted(scorer.labels, label)])
                why = explain_score(scorer, features, position, row, label, score, true_or_unknown)
                explained.append(replace(why, has_features=not empty[i]))
        ids = names_of_rows(dataset, rows.tolist())
        feature_names = names_of_features(model, (feature for each in explained for feature in each.features.tolist()))
    return WhyRows(model, str(dataset.path), explained, top, ids, feature_names)


def explain_score(
    scorer: Scorer, features: Features, position: int, row: int, label: int, score: float, true: set[str] | None
) -> Why:
    model, (indptr, indices, data) = scorer.model, scorer.csr
    begin, end = indptr[position : position + 2].tolist()
    own, values = indices[begin:end].astype(np.int64), data[begin:end].astype(np.float64)
    with_weight, weights = features.weights(label)
    divisor = float(scorer.compute_divisors(np.array([position]))[0])
    has_weight = np.isin(own, with_weight)
    own, values = own[has_weight], values[has_weight]
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
        n_without=int((~has_weight).sum()),
    )


def numbers_of_rows(dataset: DataFile, names: Iterable[str]) -> list[int]:
    """Return the numbers of rows by their ids or, without ids, by number. Raises ConfigError, DataError."""
    names = list(dict.fromkeys(names))
    if "row_ids" not in dataset.file:
        for name in names:
            if not (name.isascii() and name.isdecimal() and int(name) < dataset.n_rows):
                expected = f"its rows have no ids: name them by number, 0 to {dataset.n_rows - 1}"
                raise ConfigError(f"{dataset.path}: no row {name!r}; {expected}")
        return [int(name) for name in names]
    with readable(dataset.path, "hpcml convert", "dataset"):
        numbers, first_ids = numbers_of(dataset, names, "row_ids").tolist(), dataset.strings("row_ids", 0, N_IDS_COMPARED)
    for name, number in zip(names, numbers, strict=True):
        if number < 0:
            raise ConfigError(f"{dataset.path}: no row with the id {name!r}; {nearest(name, first_ids, 'hpcml predict')}")
    return numbers
