"""Model files of fitted estimators, as training writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.files.slabs import new_file
from hpcml.model.linear import STATUS, describe_model, model_slabs
from hpcml.model.raw_input import RawInput


class ModelTarget(NamedTuple):
    """A model file to write, and its description apart from the fitted attributes."""

    path: Path
    method: str
    label_names: list[str]
    label_titles: list[str] | None
    vocabulary: str
    raw_input: RawInput


def write_linear(
    target: ModelTarget,
    weights: Sequence[np.ndarray],
    bias: np.ndarray,
    labels: Mapping[str, Any],
    about: Mapping[str, Any],
    numbers: Sequence[np.ndarray] = (),
    factors: np.ndarray | None = None,
) -> None:
    """Write a model with the weights (n_labels, n_features) of each part of the labels, and the numbers of each label's rule.

    `labels` are what `model_slabs` has of each label, `factors` (n_features) those of the features, by default 1. The weights are
    stored sparse if that is smaller, and as float32 if that changes none. Local. Raises DataError.
    """
    n_labels, n_features = weights[0].shape
    parts = [sp.csr_matrix(each) for each in weights]
    if numbers:
        behind = np.zeros((n_labels, max(each.size for each in numbers)))
        for row, each in zip(behind, numbers, strict=True):
            row[: each.size] = each
        parts.append(sp.csr_matrix(behind))
        about = {**about, "width": n_features}
    W = parts[0] if len(parts) == 1 else sp.hstack(parts, format="csr")
    with np.errstate(over="ignore"):
        precision = "<f4" if np.array_equal(W.data, W.data.astype(np.float32), equal_nan=True) else "<f8"
    size = np.dtype(precision).itemsize
    is_sparse = len(parts) > 1 or W.nnz * (size + 4) < W.shape[0] * W.shape[1] * size
    slabs = model_slabs(n_labels, n_features, W.shape[1], precision, "gap" in labels, W.nnz if is_sparse else None)
    arrays = {"W/indptr": W.indptr, "W/indices": W.indices, "W/data": W.data} if is_sparse else {"W": weights[0]}
    arrays |= {"columns": np.arange(n_features), "factors": np.ones(n_features) if factors is None else factors, "bias": bias}
    arrays |= {f"labels/{name}": np.broadcast_to(values, n_labels) for name, values in labels.items()}
    describe = partial(
        describe_model,
        about={"method": target.method, **about, "vocabulary": target.vocabulary},
        label_names=target.label_names,
        n_columns=W.shape[1] if is_sparse else None,
        label_titles=target.label_titles,
        raw_input=target.raw_input,
    )
    with new_file(mpi.self_comm(), target.path) as out:
        out.layout(slabs, describe)
        with mpi.agreed(mpi.self_comm(), f"writing {target.path}"):
            for name, values in arrays.items():
                out.write(name, 0, values)


def status_of(status: Any, n_positive: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the status codes of labels, of which those that all rows have, or none, are degenerate."""
    return np.where((n_positive == 0) | (n_positive == n_rows), STATUS.index("degenerate"), status)
