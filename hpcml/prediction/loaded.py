"""`hpcml.load`: a model in memory that labels texts, matrices, data frames and datasets."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.shard import NO_ROWS, Shard
from hpcml.errors import ConfigError
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.top import top_of
from hpcml.log import plural
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model
from hpcml.model.open import open_model
from hpcml.model.scoring import ClassifierScorer, Scorer, divide_rows, make_scorer
from hpcml.prediction.predict import Prediction
from hpcml.prediction.raw_rows import RowMaker


class ScoredLabel(NamedTuple):
    """A label of a row. `title` is "" without one; `probability` is None if the model has none."""

    label: str
    title: str
    score: float
    probability: float | None


class LoadedModel:
    """A trained model, ready to label rows. `hpcml.load` makes it.

    Rows are given as a list of texts (or of dictionaries with the fields that the model was trained on), a data frame with the
    columns that it was trained on, a matrix (n_rows, n_features), or an `hpcml.Dataset`.

    Parameters
    ----------
    run : path
        A run folder, or its model.h5.

    Attributes
    ----------
    labels : list of str
        The names of the labels.
    titles : list of str or None
        Their titles, "" for none.
    thresholds : ndarray (n_labels,) of float64
        The scores above which a row gets each label.
    model : Model or ClassifierModel
        The file of the model.

    Raises
    ------
    DataError
        If the file cannot be read or is damaged.

    Examples
    --------
    >>> model = hpcml.load("run")
    >>> model.top(["A library of linear algebra"])[0]
    [ScoredLabel(label='devel::library', title='', score=1.2, probability=0.77)]
    """

    def __init__(self, run: Path | str | Model | ClassifierModel) -> None:
        self.model = run if isinstance(run, Model | ClassifierModel) else open_model(run)
        self.labels, self.titles = self.model.label_names, self.model.label_titles
        self.rows = RowMaker(self.model)
        self._numbers = np.arange(len(self.labels))
        comm, scorer = mpi.self_comm(), self.scorer(Shard.of_csr(NO_ROWS, self.model.n_features, len(self.labels)))
        scorer.warm_up(comm)
        self.best_labels: Any = top_of(comm, scorer, 1, Prediction.room_for_weights(self.model), by_pairs=True)

    @property
    def thresholds(self) -> np.ndarray:
        """The scores (n_labels) above which a row gets each label."""
        return self.model.thresholds

    def __repr__(self) -> str:
        model = self.model
        kind = "features of texts" if self.rows.is_text else "features"
        numbers = f"{plural(model.n_labels, 'label')}, {model.n_features:,} {kind}"
        decided = f"thresholds {model.threshold_source or '0'}, probabilities {model.probability_source or 'none'}"
        return f"<hpcml model {model.path}: {model.attrs.get('method', '?')}, {numbers}, {decided}>"

    def _blocks(self, X: Any, split: str) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
        """Yield (scorer, rows, which of them have no known word) of parts of the rows whose scores fit into memory."""
        shard = self.rows.rows(X, split)
        scorer = self.scorer(shard)
        sizes = np.diff(shard.indptr)
        for _, rows in divide_rows(shard.rows, len(self.labels)):
            yield scorer, rows, (sizes[rows] == 0) & self.rows.is_text

    def decision_function(self, X: Any, *, split: str = "all") -> np.ndarray:
        """Return the scores of all labels.

        Parameters
        ----------
        X : list of str or dict, DataFrame, matrix (n_rows, n_features) or Dataset
            The rows.
        split : str
            Of a dataset, the rows to score: a split, or all.

        Returns
        -------
        ndarray (n_rows, n_labels) of float64

        Raises
        ------
        ConfigError, DataError
            If the rows do not fit the model.
        """
        blocks = [self.best_labels.all_scores(scorer, rows) for scorer, rows, _ in self._blocks(X, split)]
        return np.concatenate(blocks) if blocks else np.empty((0, len(self.labels)))

    def predict_proba(self, X: Any, *, split: str = "all") -> np.ndarray:
        """Return the probabilities of all labels; parameters as of `decision_function`.

        Returns
        -------
        ndarray (n_rows, n_labels) of float64

        Raises
        ------
        ConfigError
            If the model has no probabilities (`hpcml.calibrate` makes them).
        """
        return probabilities(self.decision_function(X, split=split), *self.model.check_probabilities())

    def predict(self, X: Any, *, split: str = "all") -> sp.csr_matrix:
        """Return the labels above the thresholds; parameters as of `decision_function`.

        A text without any known word gets none.

        Returns
        -------
        scipy.sparse.csr_matrix (n_rows, n_labels) of bool
        """
        found = []
        for scorer, rows, empty in self._blocks(X, split):
            flags = self.best_labels.all_scores(scorer, rows) > self.thresholds
            flags[empty] = False
            found.append(sp.csr_matrix(flags))
        return sp.vstack(found, format="csr") if found else sp.csr_matrix((0, len(self.labels)), dtype=bool)

    def top(self, X: Any, k: int | None = None, *, split: str = "all") -> list[list[ScoredLabel]]:
        """Return the best labels of each row, best first; X and split as of `decision_function`.

        Parameters
        ----------
        k : int or None
            Number of labels of each row. Default: those above the thresholds.

        Returns
        -------
        list of list of ScoredLabel
            None of a text without any known word.

        Raises
        ------
        ConfigError, DataError
            If the rows do not fit the model, or k is no number of labels.
        """
        if k is not None and (not isinstance(k, Integral) or k < 1):
            raise ConfigError(f"k={k!r}: expected a whole number of labels, at least 1")
        out: list[list[ScoredLabel]] = []
        titles = self.titles or [""] * len(self.labels)
        sigmoids = self.model.sigmoids
        for scorer, rows, empty in self._blocks(X, split):
            for labels, scores in self.best(scorer, rows, k, empty):
                shown = None if sigmoids is None else probabilities(scores[None], *sigmoids, labels[None])[0].tolist()
                columns = zip(labels.tolist(), scores.tolist(), shown or [None] * labels.size, strict=True)
                out.append([ScoredLabel(self.labels[label], titles[label], *numbers) for label, *numbers in columns])
        return out

    def best(
        self, scorer: Any, rows: np.ndarray, k: int | None = None, empty: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the labels of each row of a scorer, best first, and their scores; none of rows with a flag in `empty`."""
        flags = np.zeros(rows.size, dtype=bool) if empty is None else empty
        if k is not None:
            best = self.best_labels.best(scorer, rows, min(k, len(self.labels)))
            for labels, scores, is_empty in zip(best.labels, best.scores, flags, strict=True):
                yield (labels[:0], scores[:0]) if is_empty else (labels, scores)
            return
        for scores, is_empty in zip(self.best_labels.all_scores(scorer, rows), flags, strict=True):
            labels = np.flatnonzero((scores > self.thresholds) & ~is_empty)
            labels = labels[np.lexsort((labels, -self.best_labels.comparable.values(scores[labels], labels)))]
            yield labels, scores[labels]

    def scorer(self, shard: Shard) -> Scorer | ClassifierScorer:
        """Return the scorer of all labels on a shard."""
        return make_scorer(self.model, shard, self._numbers)


def load(run: Path | str) -> LoadedModel:
    """Load a model to label rows in this process.

    Parameters
    ----------
    run : path
        A run folder, or its model.h5. The training data are not needed.

    Returns
    -------
    LoadedModel

    Raises
    ------
    DataError
        If the file cannot be read or is damaged.

    Examples
    --------
    >>> hpcml.load("run").top(["A library of linear algebra"], k=5)
    """
    return LoadedModel(run)
