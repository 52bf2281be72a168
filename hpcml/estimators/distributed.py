"""Classifiers whose `fit` takes the rows of several ranks, with checks that raise the same error on all ranks."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import validate_data

from hpcml import mpi
from hpcml.data.in_memory import canonical, check_csr
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.estimators.labels import NAMES, LabelSets, agree_labels, check_features, check_target
from hpcml.estimators.parameters import Parameter, Seed, error_text, option_values
from hpcml.estimators.sklearn_types import BaseEstimator


class DistributedClassifier(BaseEstimator):
    """Base class of classifiers that are trained on the rows of all ranks of `comm`; a subclass trains in `_learn`."""

    comm: mpi.Comm | None
    random_state: Seed
    _options_kind: ClassVar[type]
    _parameters: ClassVar[Mapping[str, Parameter]]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "comm": None}  # a communicator belongs to its process

    def __sklearn_clone__(self) -> Self:
        twin = BaseEstimator.__sklearn_clone__(copy.copy(self))
        twin.comm = self.comm
        return twin

    def fit(self, X: Any, y: Any) -> Self:
        """Train on the rows of all ranks. Collective over `comm`.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows of this rank.
        y : array (n_samples,), list of label names per row, or indicator matrix (n_samples, n_labels)
            Classes, or label sets if the method supports them.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError, TypeError
            If parameters, rows or labels are invalid.
        """
        return self._fit_weighted(X, y, None)

    def _fit_weighted(self, X: Any, y: Any, sample_weight: Any) -> Self:
        if not (self.comm is None or isinstance(self.comm, mpi.Comm)):
            raise TypeError(f"comm={self.comm!r}: expected an mpi4py communicator or None")
        local_error: Exception | None = None
        try:
            with mpi.duplicated(self.comm) as comm:
                with mpi.agreed(comm, "checking X and y"):
                    try:
                        options = self._options()
                        X, kind, y, weights = self._check(X, y, sample_weight, comm.size)
                    except (TypeError, ValueError) as error:  # of scikit-learn
                        local_error = error
                        raise DataError(f"rank {comm.rank}: {error}") from None
                options = self._agreed_options(comm, options)
                check_features(comm, self)
                labels = agree_labels(comm, kind, y, X.shape[0])
                if mpi.agreed_any(comm, sample_weight is not None):
                    labels = labels._replace(weights=weights)
                self._learn(comm, X, labels, options)
                self._kind, self.classes_ = labels.kind, labels.classes
        except (ConfigError, DataError, NonFiniteError) as error:
            text = str(error) if isinstance(error, DataError) else error_text(error)
            alone = self.comm is None or self.comm.size == 1
            raise (local_error if local_error and alone else ValueError(text)) from None
        return self

    def _learn(self, comm: mpi.Comm, X: sp.csr_matrix, labels: LabelSets, options: Any) -> None:
        raise NotImplementedError

    def _options(self) -> Any:
        values = option_values(self)
        if "random_state" in self.get_params(deep=False):
            seed = self.random_state
            values["seed"] = int(seed) if isinstance(seed, Integral) else int(check_random_state(seed).randint(2**31 - 1))
        options = self._options_kind(**values)
        options.validate()
        return options

    def _agreed_options(self, comm: mpi.Comm, options: Any) -> Any:
        """Return the options with rank 0's seed. Collective over `comm`. Raises ConfigError if the ranks' options differ."""
        first = comm.bcast(options)
        if not isinstance(getattr(self, "random_state", 0), Integral):
            options = replace(options, seed=first.seed)
        if mpi.agreed_any(comm, options != first):
            raise ConfigError("the ranks have classifiers with different parameters; use the same parameters on all ranks")
        return options

    def _check(self, X: Any, y: Any, sample_weight: Any, n_ranks: int) -> tuple[sp.csr_matrix, int, Any, np.ndarray]:
        X, least = check_csr(X, "X"), 1 if n_ranks == 1 else 0
        X = canonical(sp.csr_matrix(validate_data(self, X, accept_sparse="csr", dtype=np.float32, ensure_min_samples=least)))
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if X.shape[0] > 0:
            kind, y = check_target(y)
            check_consistent_length(X, y)
        elif len(np.shape(y)) and np.shape(y)[0] != 0:
            raise ValueError(f"X has no rows, but y has {np.shape(y)[0]}")
        else:
            kind, y = 0, None
        if sample_weight is None:
            return X, kind, y, np.ones(X.shape[0])
        weights = check_array(sample_weight, ensure_2d=False, ensure_min_samples=0, dtype=np.float64, input_name="sample_weight")
        if weights.shape != X.shape[:1]:
            raise ValueError(f"sample_weight has shape {weights.shape}; expected {X.shape[:1]}, one weight per row")
        if (weights < 0).any():
            row = int(np.argmax(weights < 0))
            raise ValueError(f"sample_weight[{row}]={weights[row]:g}: expected a number of at least 0")
        rows = np.flatnonzero(weights)
        if not rows.size:
            return X[:0], 0, None, weights[:0]
        return X[rows], kind, [y[row] for row in rows] if kind == NAMES else y[rows], weights[rows]


def gather_rows(comm: mpi.Comm, X: sp.csr_matrix, labels: LabelSets) -> tuple[sp.csr_matrix, LabelSets]:
    """Return the rows and labels of all ranks in rank order. Collective over `comm`. Needs up to 16 bytes per value."""
    if comm.size == 1:
        return X, labels
    index = np.int32 if X.shape[1] < 2**31 else np.int64

    def gather(array: np.ndarray, dtype: type) -> np.ndarray:
        return np.concatenate(mpi.allgather_arrays(comm, np.ascontiguousarray(array, dtype)))

    def gather_indptr(indptr: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(gather(np.diff(indptr), np.int64))])

    arrays = (gather(X.data, np.float32), gather(X.indices, index), gather_indptr(X.indptr))
    labels = labels._replace(
        indptr=gather_indptr(labels.indptr),
        indices=gather(labels.indices, np.int64),
        weights=None if labels.weights is None else gather(labels.weights, np.float64),
    )
    return sp.csr_matrix(arrays, (arrays[2].size - 1, X.shape[1])), labels
