"""Model files of fitted estimators, with the content that training writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.files.slabs import new_file
from hpcml.model.linear import STATUS, describe_model, is_smaller_sparse, model_slabs
from hpcml.model.raw_input import RawInput
from hpcml.partition import offsets


class ModelTarget(NamedTuple):
    path: Path
    method: str
    label_names: list[str]
    label_titles: list[str] | None
    vocabulary: str
    raw_input: RawInput


def write_linear(
    target: ModelTarget,
    weights: Sequence[np.ndarray],  # (n_labels, n_features) per part
    bias: np.ndarray,
    labels: Mapping[str, Any],  # columns labels/*, named as in `model_slabs`
    about: Mapping[str, Any],  # attributes
    numbers: Sequence[np.ndarray] = (),  # of each label's combination rule
    factors: np.ndarray | float = 1.0,  # (n_features,)
) -> None:
    """Write a model: sparse if that is smaller, in float32 if all weights can be represented. Raises DataError."""
    (n_labels, n_features), parts = weights[0].shape, list(map(sp.csr_matrix, weights))
    if numbers:
        numbers = [each if each.size else np.zeros(1) for each in numbers]
        columns = np.concatenate([np.arange(each.size) for each in numbers])
        parts.append(sp.csr_matrix((np.concatenate(numbers), columns, offsets([each.size for each in numbers]))))
        about = {**about, "width": n_features}
    W = sp.hstack(parts, format="csr")
    with np.errstate(over="ignore"):
        precision = "<f4" if np.array_equal(W.data, W.data.astype("<f4"), equal_nan=True) else "<f8"
    is_sparse = len(parts) > 1 or is_smaller_sparse(n_labels, n_features, W.nnz, precision)
    slabs = model_slabs(n_labels, n_features, W.shape[1], precision, "gap" in labels, W.nnz if is_sparse else None)
    arrays = {"columns": np.arange(n_features), "factors": np.broadcast_to(factors, n_features), "bias": bias, "W": weights[0]}
    arrays |= {"W/indptr": W.indptr, "W/indices": W.indices, "W/data": W.data}
    constant = np.isin(labels["n_positive"], [0, about["n_rows"]]) & (labels["status"] != STATUS.index("one pass"))
    labels = {**labels, "status": np.where(constant, STATUS.index("degenerate"), labels["status"])}
    arrays |= {f"labels/{name}": np.broadcast_to(values, n_labels) for name, values in labels.items()}
    facts = {"method": target.method, **about, "vocabulary": target.vocabulary}
    n_columns = W.shape[1] if is_sparse else None
    description = (facts, target.label_names, n_columns, target.label_titles, None, target.raw_input)
    with new_file(mpi.self_comm(), target.path) as out:
        out.layout(slabs, lambda file: describe_model(file, *description))
        with mpi.agreed(mpi.self_comm(), f"writing {target.path}"):
            for name in slabs:
                out.write(name, 0, arrays[name])
