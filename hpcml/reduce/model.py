"""The model of a balanced Winnow with some of its features only, by extremal selection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.files.hdf5 import map_dataset, open_stamped, readable, write_strings
from hpcml.files.slabs import Slab, SlabFile, group_in, new_file
from hpcml.files.untrusted import attributes, read_strings
from hpcml.model.linear import Model
from hpcml.model.open import model_file
from hpcml.partition import even_bounds

FEATURES, POSITIVE, NEGATIVE = "state/features", "state/u", "state/v"
PER_LABEL = ("state/lanes", "state/counters")  # never have a number for each feature, whatever their width
COPIED = 1 << 24  # numbers that are copied at a time


@dataclass
class SeenFeatures:
    """What selection needs of a model: the features that it has seen (k, ascending), its shape."""

    model: Model
    features: np.ndarray
    positive: np.ndarray  # u (n_labels × (k + 1)), the bias first, mapped
    negative: np.ndarray  # v

    @classmethod
    def read(cls, path: Path) -> SeenFeatures:
        """Local. Raises ConfigError for a model without such weights, DataError if damaged."""
        path = model_file(path)
        model = Model(path)
        if model.sparse:
            raise DataError(f"{path}: a sparse model cannot be reduced to fewer features; take the one that it was made of")
        with open_stamped(path, "model", "hpcml train") as file, readable(path, "hpcml train", "model"):
            if POSITIVE not in file or NEGATIVE not in file:
                raise ConfigError(
                    f"{path}: a model of the method {model.attrs.get('method', '?')} without the weights u and v of its state; "
                    "extremal selection needs a model of bw or mbw (trained without --final)"
                )
            features, u, v = (map_dataset(path, file[name]) for name in (FEATURES, POSITIVE, NEGATIVE))
        shape, sound = (model.n_labels, features.size + 1), features.ndim == 1 and features.dtype.kind == "i"
        sound = sound and u.shape == v.shape == shape and u.dtype.kind == v.dtype.kind == "f"
        if sound and features.size:
            sound = bool((features[1:] > features[:-1]).all() and features[0] >= 0 and features[-1] < model.n_features)
        if not sound:
            raise DataError(f"{path}: damaged model: its state does not fit; train it again")
        return cls(model, np.array(features), u, v)

    def importance(self, labels: np.ndarray, over: str) -> tuple[np.ndarray, np.ndarray]:
        """I_j = |u_j − v_j| (n_features), max or mean over `labels`, and which features are seen.

        The mean is weighted by positive rows. Raises DataError if a weight is not a number.
        """
        out, total = np.zeros(self.features.size), int(self.model.labels["n_positive"][labels].sum())
        for label in labels.tolist():
            found = np.abs(self.positive[label, 1:] - self.negative[label, 1:])
            weight = self.model.labels["n_positive"][label] / max(1, total)
            out = np.maximum(out, found) if over == "max" else out + weight * found
        if not np.isfinite(out).all():
            raise DataError(f"{self.model.path}: damaged model: a weight of its state is not a number; train it again")
        importance, seen = np.zeros(self.model.n_features), np.zeros(self.model.n_features, dtype=bool)
        importance[self.features], seen[self.features] = out, True
        return importance, seen


def _parts(file: h5py.File) -> Iterator[h5py.Group | h5py.Dataset]:
    """All groups and datasets of a file, parents first, in the order of their names."""
    for name in sorted(file):
        yield file[name]
        if isinstance(file[name], h5py.Group):
            yield from _parts(file[name])


class _Reduction:
    """How each dataset of a model changes. Local."""

    def __init__(self, weights: SeenFeatures, features: np.ndarray) -> None:
        model, n_features = weights.model, weights.model.n_features
        places = np.searchsorted(weights.features, features)  # of the features among those that were seen
        self.width = weights.features.size + 1
        self.in_state = np.concatenate([[0], places + 1])  # the bias stays
        self.of_W, new = np.unique(model.columns[features], return_inverse=True)
        columns, factors = np.zeros(n_features, np.int32), np.zeros(n_features, np.float32)
        columns[features], factors[features] = new, model.factors[features]
        self.tables = {"columns": columns, "factors": factors, FEATURES: features}

    def columns(self, data: h5py.Dataset) -> np.ndarray | None:
        """The columns of a dataset that stay, None for all."""
        name = data.name.lstrip("/")
        if name == "W":
            return self.of_W
        in_state = name.startswith("state/") and name not in PER_LABEL and data.ndim == 2 and data.shape[1] == self.width
        return self.in_state if in_state else None

    def slab(self, data: h5py.Dataset) -> Slab:
        """The shape and the type that a dataset gets."""
        table, columns = self.tables.get(data.name.lstrip("/")), self.columns(data)
        shape = data.shape if table is None else table.shape
        return Slab(shape if columns is None else (shape[0], columns.size), data.dtype.str)


def reduce_model(comm: mpi.Comm, weights: SeenFeatures, features: np.ndarray, output: Path, force: bool) -> None:
    """Collective over `comm`. Write the model with only these features (ascending, seen).

    It is for the same data: other features count as unseen. Raises ConfigError for an output that
    exists (without `force`), DataError if a file cannot be read or written.
    """
    path = weights.model.path
    with mpi.agreed(comm, f"reading {path}"):
        reduction = _Reduction(weights, features)
        source = open_stamped(path, "model", "hpcml train")
    with source, new_file(comm, output, force, [path]) as out:
        numbers = {}
        with mpi.agreed(comm, f"reading {path}"), readable(path, "hpcml train", "model"):
            parts = [part for part in _parts(source) if isinstance(part, h5py.Dataset) and part.dtype.kind in "iufb"]
            numbers = {part.name.lstrip("/"): part for part in parts if part.ndim > 0}
        slabs = {name: reduction.slab(part) for name, part in numbers.items()}
        out.layout(slabs, lambda file: _describe(file, source))
        with mpi.agreed(comm, f"writing {output}"):
            for name, part in numbers.items():
                _copy(comm, out, name, part, path, reduction)


def _describe(file: h5py.File, source: h5py.File) -> None:
    """Attributes, groups, names and single numbers as they are."""
    for name, value in attributes(source).items():
        file.attrs[name] = value
    for part in _parts(source):
        if isinstance(part, h5py.Group):
            for name, value in attributes(part).items():
                group_in(file, part.name).attrs[name] = value
        elif h5py.check_string_dtype(part.dtype) is not None:
            write_strings(file, part.name, read_strings(part))
        elif part.ndim == 0:
            file.create_dataset(part.name, data=part[()])
        if isinstance(part, h5py.Dataset) and part.name in file:
            for name, value in attributes(part).items():
                file[part.name].attrs[name] = value


def _copy(comm: mpi.Comm, out: SlabFile, name: str, part: h5py.Dataset, path: Path, reduction: _Reduction) -> None:
    """This rank's rows of a dataset, reduced. Raises OSError."""
    table, columns = reduction.tables.get(name), reduction.columns(part)
    values = map_dataset(path, part) if table is None else table
    begin, end = (int(bound) for bound in even_bounds(values.shape[0], comm.size)[comm.rank : comm.rank + 2])
    step = max(1, COPIED // max(1, int(np.prod(values.shape[1:], dtype=np.int64))))
    for first in range(begin, end, step):
        some = values[first : min(first + step, end)]
        out.write(name, first, some if columns is None else some[:, columns])
