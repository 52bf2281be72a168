"""`hpcml.load`: a model in memory that labels texts, matrices, data frames and datasets."""

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
from hpcml.evaluation.top import make_top_finder
from hpcml.log import plural
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model
from hpcml.model.open import open_model
from hpcml.model.scoring import ClassifierScorer, Scorer, divide_rows, make_scorer
from hpcml.prediction.predict import can_keep_weights
from hpcml.prediction.raw_rows import RowMaker


class ScoredLabel(NamedTuple):
    """A label of a row, as returned by `LoadedModel.top`.

    Parameters
    ----------
    label : str
        Name of the label.
    title : str
        Title of the label; "" without one.
    score : float
        Score; the label is predicted if it is above the label's threshold.
    probability : float or None
        Probability; None if the model has no probabilities.

    Examples
    --------
    >>> best = hpcml.load("run").top(["A ship in the port"], k=1)[0][0]
    >>> best.label
    'sea'
    """

    label: str
    title: str
    score: float
    probability: float | None


class LoadedModel:
    """A model in memory that labels rows; created by `hpcml.load`.

    Rows are a list of texts (or of dictionaries with the fields of the training documents), a data frame with the columns of the
    training data, a matrix (n_rows, n_features) or an `hpcml.Dataset`.

    Parameters
    ----------
    run : path, Model or ClassifierModel
        A run folder, its model.h5, or an open model.

    Attributes
    ----------
    labels : list of str
        Names of the labels.
    titles : list of str or None
        Titles of the labels, "" for a label without one.
    thresholds : ndarray (n_labels,) of float64
        Scores above which a row gets each label.
    model : Model or ClassifierModel
        The model file.

    Raises
    ------
    DataError
        If the file cannot be read or is damaged.

    Examples
    --------
    >>> model = hpcml.load("run")
    >>> model.top(["A ship in the port"])[0]
    [ScoredLabel(label='sea', title='', score=..., probability=...)]
    """

    def __init__(self, run: Path | str | Model | ClassifierModel) -> None:
        self.model = run if isinstance(run, Model | ClassifierModel) else open_model(run)
        self.labels, self.titles = self.model.label_names, self.model.label_titles
        self._row_maker = RowMaker(self.model)
        scorer = self._scorer(Shard.of_csr(NO_ROWS, self.model.n_features, len(self.labels)))
        scorer.warm_up(mpi.self_comm())
        self._best_labels: Any = make_top_finder(mpi.self_comm(), scorer, 1, can_keep_weights(self.model), by_pairs=True)

    @property
    def thresholds(self) -> np.ndarray:
        """Scores (n_labels,) above which a row gets each label."""
        return self.model.thresholds

    def __repr__(self) -> str:
        model = self.model
        kind = "features of texts" if self._row_maker.is_text else "features"
        sizes = f"{plural(model.n_labels, 'label')}, {model.n_features:,} {kind}"
        sources = f"thresholds {model.threshold_source or '0'}, probabilities {model.probability_source or 'none'}"
        return f"<hpcml model {model.path}: {model.attrs.get('method', '?')}, {sizes}, {sources}>"

    def decision_function(self, X: Any, *, split: str = "all") -> np.ndarray:
        """Return the scores of all labels.

        Parameters
        ----------
        X : list of str or dict, DataFrame, matrix (n_rows, n_features) or Dataset
            Rows.
        split : str
            Split of a dataset (default: all rows).

        Returns
        -------
        ndarray (n_rows, n_labels) of float64
            Scores.

        Raises
        ------
        ConfigError, DataError
            If the rows do not have the features of the model.
        """
        blocks = [self._best_labels.all_scores(scorer, rows) for scorer, rows, _ in self._blocks(X, split)]
        return np.concatenate(blocks) if blocks else np.empty((0, len(self.labels)))

    def predict_proba(self, X: Any, *, split: str = "all") -> np.ndarray:
        """Return the probabilities of all labels.

        Parameters
        ----------
        X : list of str or dict, DataFrame, matrix (n_rows, n_features) or Dataset
            Rows.
        split : str
            Split of a dataset (default: all rows).

        Returns
        -------
        ndarray (n_rows, n_labels) of float64
            Probabilities from 0 to 1.

        Raises
        ------
        ConfigError
            If the model has no probabilities; `hpcml.calibrate` adds them.
        """
        return probabilities(self.decision_function(X, split=split), *self.model.check_probabilities())

    def predict(self, X: Any, *, split: str = "all") -> sp.csr_matrix:
        """Return the labels with scores above their thresholds.

        Parameters
        ----------
        X : list of str or dict, DataFrame, matrix (n_rows, n_features) or Dataset
            Rows.
        split : str
            Split of a dataset (default: all rows).

        Returns
        -------
        scipy.sparse.csr_matrix (n_rows, n_labels) of bool
            A text without known words has no labels.
        """
        blocks = []
        for scorer, rows, is_empty in self._blocks(X, split):
            flags = self._best_labels.all_scores(scorer, rows) > self.thresholds
            flags[is_empty] = False
            blocks.append(sp.csr_matrix(flags))
        return sp.vstack(blocks, format="csr") if blocks else sp.csr_matrix((0, len(self.labels)), dtype=bool)

    def top(self, X: Any, k: int | None = None, *, split: str = "all") -> list[list[ScoredLabel]]:
        """Return the best labels of each row, in descending order.

        Parameters
        ----------
        X : list of str or dict, DataFrame, matrix (n_rows, n_features) or Dataset
            Rows.
        k : int or None
            Number of labels per row. Default: the labels above their thresholds.
        split : str
            Split of a dataset (default: all rows).

        Returns
        -------
        list of list of ScoredLabel
            One list per row; empty for a text without known words.

        Raises
        ------
        ConfigError, DataError
            If the rows do not have the features of the model, or k is not a positive integer.
        """
        if k is not None and (not isinstance(k, Integral) or k < 1):
            raise ConfigError(f"k={k!r}: expected a whole number of at least 1")
        out: list[list[ScoredLabel]] = []
        titles, sigmoids = self.titles or [""] * len(self.labels), self.model.sigmoids
        for scorer, rows, is_empty in self._blocks(X, split):
            for (labels, scores), without in zip(self._rank_labels(scorer, rows, k), is_empty, strict=True):
                if without:
                    labels, scores = labels[:0], scores[:0]
                values = None if sigmoids is None else probabilities(scores[None], *sigmoids, labels[None])[0].tolist()
                columns = zip(labels.tolist(), scores.tolist(), values or [None] * labels.size, strict=True)
                out.append([ScoredLabel(self.labels[label], titles[label], *numbers) for label, *numbers in columns])
        return out

    def _blocks(self, X: Any, split: str) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
        """Yield blocks of rows whose scores fit into memory: a scorer, rows, and flags of texts without known words."""
        shard = self._row_maker.make_rows(X, split)
        scorer, sizes = self._scorer(shard), np.diff(shard.indptr)
        for _, rows in divide_rows(shard.rows, len(self.labels)):
            yield scorer, rows, (sizes[rows] == 0) & self._row_maker.is_text

    def _scorer(self, shard: Shard) -> Scorer | ClassifierScorer:
        return make_scorer(self.model, shard, np.arange(len(self.labels)))

    def _rank_labels(self, scorer: Any, rows: np.ndarray, k: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield labels and scores of each row in descending order: the k best, or those above their thresholds."""
        if k is not None:
            best = self._best_labels.best(scorer, rows, min(k, len(self.labels)))
            yield from zip(best.labels, best.scores, strict=True)
            return
        for scores in self._best_labels.all_scores(scorer, rows):
            labels = np.flatnonzero(scores > self.thresholds)
            labels = labels[np.lexsort((labels, -self._best_labels.comparable.values(scores[labels], labels)))]
            yield labels, scores[labels]


def load(run: Path | str) -> LoadedModel:
    """Load a model to label rows in this process.

    Parameters
    ----------
    run : path
        A run folder, or its model.h5. The training data are not needed.

    Returns
    -------
    LoadedModel
        The model, with compiled kernels.

    Raises
    ------
    DataError
        If the file cannot be read or is damaged.

    Examples
    --------
    >>> hpcml.load("run").top(["A ship in the port"], k=1)
    [[ScoredLabel(label='sea', title='', score=..., probability=...)]]
    """
    return LoadedModel(run)
