"""The features that linear models look at, by squared weight, and the mass of the others.

C. Elkan, *Extreme multilabel learning* (2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.conversion.fields import PLAIN, Field
from hpcml.conversion.vocabulary import fields_of
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, NonFiniteError, nearest
from hpcml.evaluation.titles import names_by_number
from hpcml.files import atomic
from hpcml.files.hdf5 import readable
from hpcml.files.table import table
from hpcml.log import entitled, joined, named, plural
from hpcml.model.linear import Model, Trained
from hpcml.partition import even_bounds, offsets

SHOWN = 5  # labels, where none are named
PER_CHUNK = 256  # labels that are sent together


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


@dataclass
class Explanation:
    """The findings on some labels of a model, on rank 0; `names` of features, if data have any."""

    model: Model
    data: Path | None
    labels: list[LabelWeights]
    shown: np.ndarray  # labels that people are shown
    names: dict[int, str]
    fields: Sequence[Field]

    def __str__(self) -> str:
        return format_explanation(self)

    def name(self, feature: int) -> str:
        """The name of a feature."""
        return self.names.get(feature, f"feature {feature}")


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


def explain(
    comm: mpi.Comm, model: Trained, dataset: DataFile | None, wanted: Sequence[str], top: int, every: bool | np.ndarray
) -> Explanation | None:
    """Collective over `comm`. The `top` features of the labels `wanted`; on rank 0, None elsewhere.

    Without names these are the labels of most training rows; with `every` all labels are looked at,
    or those with the numbers that it is, though people are shown a few. `dataset` is one with the
    model's features, for their names. Raises ConfigError for a label that the model does not have,
    a classifier, or `top` below 1; DataError for other features; NonFiniteError for weights that
    are no numbers.
    """
    if top < 1:
        raise ConfigError(f"--top {top}: expected at least 1")
    if not isinstance(model, Model):
        raise ConfigError(f"{model.path}: a classifier has no weights of features; explain takes linear models")
    if model.combination is not None:
        raise ConfigError(f"{model.path}: its labels have several weights for a feature; explain takes models with one")
    with mpi.agreed(comm, f"reading {model.path}"):
        shown = labels_to_show(model, wanted)
        if dataset is not None:
            model.check_vocabulary(dataset)
        labels = shown if wanted or every is False else np.arange(model.n_labels)
        labels = every if isinstance(every, np.ndarray) else labels
        features = Features(model)
    begin, end = even_bounds(labels.size, comm.size)[comm.rank : comm.rank + 2].tolist()
    found: list[LabelWeights] = []
    chunks = (labels[first : min(first + PER_CHUNK, end)].tolist() for first in range(begin, end, PER_CHUNK))
    mpi.stream_to_root(comm, ([features.largest(label, top) for label in chunk] for chunk in chunks), found.extend)
    explanation = None
    with mpi.agreed(comm, f"reading {'names' if dataset is None else dataset.path}"):
        if comm.rank == 0:
            names, fields = _names(dataset, found)
            explanation = Explanation(model, None if dataset is None else dataset.path, found, shown, names, fields)
    return explanation


def _names(dataset: DataFile | None, found: Sequence[LabelWeights]) -> tuple[dict[int, str], Sequence[Field]]:
    """The names of features, and the fields, if some are told apart. Raises DataError."""
    if dataset is None:
        return {}, ()
    wanted = np.unique(np.concatenate([np.zeros(0, np.int64), *(each.features for each in found)]))
    names = names_by_number(dataset, wanted)
    with readable(dataset.path, "hpcml convert", "dataset"):
        fields = fields_of(dataset) if "text" in dataset.file else PLAIN
    return names, () if fields == PLAIN else fields


def format_explanation(found: Explanation) -> str:
    """A table for each label that is shown."""
    model, by_label = found.model, {each.label: each for each in found.labels}
    lines = [
        f"{model.path}: {len(found.shown):,} of {plural(model.n_labels, 'label')}, {plural(model.n_features, 'feature')}",
        "weight: what a value of 1 adds to the score; squared: its square; share: that square in % of all squares of the label",
    ]
    if found.fields:
        kinds = (f"{f.tag} = {'value' if f.whole else 'word'} of {f.name}" for f in found.fields)
        lines.append("behind a feature stands its field: " + ", ".join(kinds))
    for label in found.shown.tolist():
        each, rows = by_label[label], int(model.labels["n_positive"][label])
        name = named(entitled(model.label_names[label], model.label_titles, label))
        head = f"{name}: {plural(rows, 'training row')}, {plural(each.n_weights, 'feature')}, "
        lines += ["", f"{head}intercept {model.bias[label]:.4g}"]
        if not each.n_weights:
            lines.append("  no weights: every row has the same score")
            continue
        rest = each.n_weights - each.features.size
        cells = [["  feature", "weight", "squared", "share"]]
        for feature, weight in zip(each.features.tolist(), each.weights.tolist(), strict=True):
            cells.append(
                [f"  {found.name(feature)}", f"{weight:.4g}", f"{weight * weight:.4g}", _share(weight * weight, each.mass)]
            )
        others = plural(rest, "feature")
        cells.append([f"  (remaining mass: {others})", "", f"{each.remaining:.4g}", _share(each.remaining, each.mass)])
        lines += table(cells)
    return joined(lines)


def _share(square: float, mass: float) -> str:
    """A part of the mass in %; the squares of the least weights may all be 0."""
    return f"{100 * square / mass:.2f}" if mass else "-"


def write_json(path: Path, found: Explanation) -> None:
    """Everything, of all labels that were looked at. Local; raises DataError."""
    model = found.model
    content = {
        "model": str(model.path),
        "data": None if found.data is None else str(found.data),
        "n_labels": model.n_labels,
        "n_features": model.n_features,
        "fields": [field._asdict() for field in found.fields],
        "labels": [_as_dict(found, each) for each in found.labels],
    }
    atomic.write_json(path, content)


def _as_dict(found: Explanation, each: LabelWeights) -> dict[str, Any]:
    model, by_tag = found.model, {field.tag: field.name for field in found.fields}
    features = []
    for feature, weight in zip(each.features.tolist(), each.weights.tolist(), strict=True):
        name = found.names.get(feature)
        of = {} if name is None or not by_tag else {"field": by_tag.get(name.rpartition(" ")[2])}
        share = {"squared": weight * weight, "share": weight * weight / each.mass if each.mass else None}
        features.append({"feature": feature, "name": name, **of, "weight": weight, **share})
    rest = {"n_features": each.n_weights - each.features.size, "squared": each.remaining}
    return {
        "number": each.label,
        "label": model.label_names[each.label],
        **({"title": model.label_titles[each.label]} if model.label_titles else {}),
        "n_positive": int(model.labels["n_positive"][each.label]),
        "intercept": float(model.bias[each.label]),
        "n_features": each.n_weights,
        "mass": each.mass,
        "features": features,
        "remaining": rest | {"share": each.remaining / each.mass if each.mass else None},
    }
