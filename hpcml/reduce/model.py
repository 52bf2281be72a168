"""Write a balanced Winnow model with some of its features, by extremal selection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import map_dataset, open_stamped, readable, write_strings
from hpcml.files.slabs import open_for_update, require_group
from hpcml.files.untrusted import attributes, read_strings
from hpcml.model.linear import Model
from hpcml.model.open import model_file

FEATURES, POSITIVE, NEGATIVE = "state/features", "state/u", "state/v"
PER_LABEL = ("state/lanes", "state/counters")  # never per feature, whatever their width
COPIED = 1 << 24  # numbers copied at a time


@dataclass
class SeenFeatures:
    """The features that a model has seen (k, ascending), and their weights."""

    model: Model
    features: np.ndarray
    positive: np.ndarray  # u (n_labels × (k + 1)), the bias first, mapped
    negative: np.ndarray  # v

    @classmethod
    def read(cls, path: Path) -> SeenFeatures:
        path = model_file(path)
        model = Model(path)
        if model.sparse:
            raise DataError(f"{path}: a sparse model cannot be reduced to fewer features; use the model before pruning")
        with open_stamped(path, "model", "hpcml train") as file, readable(path, "hpcml train", "model"):
            if POSITIVE not in file or NEGATIVE not in file:
                raise ConfigError(
                    f"{path}: a model of the method {model.attrs.get('method', '?')} without the weights u and v of its state; "
                    "extremal selection needs a model of bw or mbw (trained without --final)"
                )
            features, u, v = (map_dataset(path, file[name]) for name in (FEATURES, POSITIVE, NEGATIVE))
        shape, is_valid = (model.n_labels, features.size + 1), features.ndim == 1 and features.dtype.kind == "i"
        is_valid = is_valid and u.shape == v.shape == shape and u.dtype.kind == v.dtype.kind == "f"
        if is_valid and features.size:
            is_valid = bool((features[1:] > features[:-1]).all() and features[0] >= 0 and features[-1] < model.n_features)
        if not is_valid:
            raise DataError(f"{path}: damaged model: the sizes of its state differ; train it again")
        return cls(model, np.array(features), u, v)

    def importance(self, labels: np.ndarray, over: str) -> tuple[np.ndarray, np.ndarray]:
        """Return I_j = |u_j − v_j| (n_features), max or mean (by positive rows) over `labels`, and flags of seen features."""
        out, total = np.zeros(self.features.size), int(self.model.labels["n_positive"][labels].sum())
        for label in labels.tolist():
            differences = np.abs(self.positive[label, 1:] - self.negative[label, 1:])
            weight = self.model.labels["n_positive"][label] / max(1, total)
            out = np.maximum(out, differences) if over == "max" else out + weight * differences
        if not np.isfinite(out).all():
            raise DataError(f"{self.model.path}: damaged model: a weight of its state is not a number; train it again")
        importance, seen = np.zeros(self.model.n_features), np.zeros(self.model.n_features, dtype=bool)
        importance[self.features], seen[self.features] = out, True
        return importance, seen


def reduce_model(comm: mpi.Comm, weights: SeenFeatures, features: np.ndarray, output: Path, force: bool) -> None:
    """`features` are ascending and seen; other features count as unseen. Collective over `comm`."""
    with temporary_path(comm, output, force, [weights.model.path]) as temporary:
        mpi.run_on_root(comm, f"writing {output}", lambda: _write(weights, features, temporary, output))


def _write(weights: SeenFeatures, features: np.ndarray, temporary: Path, output: Path) -> None:
    model, path, width = weights.model, weights.model.path, weights.features.size + 1
    in_state = np.concatenate([[0], np.searchsorted(weights.features, features) + 1])  # keep the bias
    W_columns, new = np.unique(model.columns[features], return_inverse=True)
    columns, factors = np.zeros(model.n_features, np.int32), np.zeros(model.n_features, np.float32)
    columns[features], factors[features] = new, model.factors[features]
    tables = {"columns": columns, "factors": factors, FEATURES: features}
    parts: list[h5py.Group | h5py.Dataset] = []
    with open_stamped(path, "model", "hpcml train") as source, open_for_update(temporary, new=True, target=output) as file:
        with readable(path, "hpcml train", "model"):
            source.visititems(lambda _, part: parts.append(part))
        file.attrs.update(attributes(source))
        for part in parts:
            name = part.name.lstrip("/")
            if isinstance(part, h5py.Group):
                require_group(file, name)
            elif part.chunks is not None:  # compressed
                file.create_dataset(name, data=part[()], compression=part.compression, shuffle=part.shuffle)
            elif h5py.check_string_dtype(part.dtype) is not None:
                write_strings(file, name, read_strings(part))
            elif name in tables or part.ndim == 0:
                file.create_dataset(name, data=tables[name].astype(part.dtype) if name in tables else part[()])
            else:
                is_state = name.startswith("state/") and name not in PER_LABEL and part.ndim == 2 and part.shape[1] == width
                _copy(file, name, map_dataset(path, part), W_columns if name == "W" else in_state if is_state else None)
            file[name].attrs.update(attributes(part))


def _copy(file: h5py.File, name: str, values: np.ndarray, columns: np.ndarray | None) -> None:
    shape = values.shape if columns is None else (values.shape[0], columns.size)
    data = file.create_dataset(name, shape, values.dtype)
    step = max(1, COPIED // max(1, int(np.prod(values.shape[1:], dtype=np.int64))))
    for first in range(0, values.shape[0], step):
        rows = values[first : first + step]
        data[first : first + step] = rows if columns is None else rows[:, columns]
