"""Labels of texts: probabilities, and the words that contribute most to them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpcml.conversion.text import Values
from hpcml.conversion.vocabulary import Field
from hpcml.data.shard import Shard
from hpcml.evaluation.explain import Features, explain_score
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.top import SparseTop
from hpcml.model.linear import Model
from hpcml.model.scoring import ClassifierScorer, Scorer, divide_rows
from hpcml.prediction.loaded import LoadedModel


@dataclass(frozen=True)
class Suggestion:
    """A label of a text; `words` are (feature, contribution to the log-odds), largest magnitude first."""

    label: int
    probability: float
    is_given: bool  # whether the score is above the threshold
    words: list[tuple[str, float]]


@dataclass(frozen=True)
class Question:
    values: Values
    limit: int = 10
    min_probability: float = 0.0
    n_words: int = 0
    only_given: bool = False


class Suggester:
    def __init__(self, loaded: LoadedModel) -> None:
        """Compile all kernels. Raises ConfigError for a model without probabilities or not trained on texts, DataError."""
        self.loaded, self.model, self.sigmoids = loaded, loaded.model, loaded.model.check_probabilities()
        self._vectoriser = loaded._row_maker.text_vectoriser
        self.fields: tuple[Field, ...] = self._vectoriser.fields
        titles = loaded.titles or loaded.labels
        self.titles = [title or name for title, name in zip(titles, loaded.labels, strict=True)]
        self.features = Features(self.model) if isinstance(self.model, Model) and self.model.combination is None else None
        if isinstance(loaded._best_labels, SparseTop):
            loaded._best_labels.expect_many_rows()
        empty: Values = [[] for _ in self.fields]
        first = [Question(empty, limit=1, n_words=1, only_given=only_given) for only_given in (False, True)]
        self._suggest(self._vectoriser([question.values for question in first]), first)

    def __call__(self, questions: Sequence[Question]) -> list[list[Suggestion] | None]:
        """Return the labels of each text, most probable first; None for a text without known words. Raises NonFiniteError."""
        shard = self._vectoriser([question.values for question in questions])
        sizes = np.diff(shard.indptr).tolist()
        return [labels if size else None for labels, size in zip(self._suggest(shard, questions), sizes, strict=True)]

    def _suggest(self, shard: Shard, questions: Sequence[Question]) -> list[list[Suggestion]]:
        scorer, thresholds, out = self.loaded._scorer(shard), self.model.thresholds, []
        for begin, rows in divide_rows(shard.rows, self.model.n_labels):
            block = questions[begin : begin + rows.size]
            only_given = np.array([question.only_given for question in block], dtype=bool)
            size = max((question.limit for question in block if not question.only_given), default=1)
            best = self.loaded._rank_labels(scorer, rows[~only_given], size)
            above = self.loaded._rank_labels(scorer, rows[only_given])
            for row, question in zip(rows.tolist(), block, strict=True):
                labels, scores = (each[: question.limit] for each in next(above if question.only_given else best))
                values = probabilities(scores[None], *self.sigmoids, labels[None])[0]
                columns = zip(*(each.tolist() for each in (labels, scores, values, scores > thresholds[labels])), strict=True)
                suggestions = [
                    Suggestion(label, probability, is_given, self._find_words(scorer, row, label, score, question.n_words))
                    for label, score, probability, is_given in columns
                    if probability >= question.min_probability
                ]
                out.append(suggestions)
        return out

    def _find_words(self, scorer: Scorer | ClassifierScorer, row: int, label: int, score: float, n: int) -> list[tuple[str, float]]:
        """Return the `n` features of a row with the largest contributions to a label's log-odds."""
        if n == 0 or self.features is None or not isinstance(scorer, Scorer):
            return []
        explanation = explain_score(scorer, self.features, row, row, label, score, set())
        slope = float(self.sigmoids[0][label])
        names = [self._vectoriser.name(feature) for feature in explanation.features[:n].tolist()]
        return list(zip(names, (slope * explanation.contributions[:n]).tolist(), strict=True))
