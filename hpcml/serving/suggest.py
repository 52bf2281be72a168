"""The headings of texts by a model: probabilities, and the words that speak for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpcml.conversion.text import Values
from hpcml.conversion.vocabulary import Field
from hpcml.data.shard import Shard
from hpcml.evaluation.explain import Features, explain_score
from hpcml.evaluation.probabilities import probabilities
from hpcml.model.linear import Model
from hpcml.model.scoring import ClassifierScorer, Scorer, divide_rows
from hpcml.prediction.loaded import LoadedModel


@dataclass(frozen=True)
class Suggestion:
    """A label of a text: its probability, whether its score is above the threshold, and words.

    `words` are features of the text by what they add to the log-odds, the largest first, whichever sign; none if none are wanted.
    """

    label: int
    probability: float
    given: bool
    words: list[tuple[str, float]]


@dataclass(frozen=True)
class Question:
    """A text by its fields; how many headings and words are wanted, from which probability on."""

    values: Values
    limit: int = 10
    least: float = 0.0
    n_words: int = 0
    only_given: bool = False


class Suggester:
    """Gives texts headings."""

    def __init__(self, loaded: LoadedModel) -> None:
        """Raises ConfigError for a model without probabilities or not of texts, DataError."""
        self.loaded, self.model, self.sigmoids = loaded, loaded.model, loaded.model.check_probabilities()
        self.rows_of = loaded.rows.few_texts
        self.fields: tuple[Field, ...] = self.rows_of.fields
        titles = loaded.titles or loaded.labels
        self.titles = [title or name for title, name in zip(titles, loaded.labels, strict=True)]
        self.features = Features(self.model) if isinstance(self.model, Model) and self.model.combination is None else None
        nothing: Values = [[] for _ in self.fields]
        first = [Question(nothing, limit=1, n_words=1, only_given=given) for given in (False, True)]
        self._scored(self.rows_of([question.values for question in first]), first)  # compile what is left

    def __call__(self, questions: Sequence[Question]) -> list[list[Suggestion] | None]:
        """The headings of each text, the most probable first, then in the model's order. Local.

        None for a text without any known word: its probabilities would be how frequent the labels
        are. Raises NonFiniteError if a score is not a number.
        """
        shard = self.rows_of([question.values for question in questions])
        sizes = np.diff(shard.indptr).tolist()
        return [found if size else None for found, size in zip(self._scored(shard, questions), sizes, strict=True)]

    def _scored(self, shard: Shard, questions: Sequence[Question]) -> list[list[Suggestion]]:
        scorer, thresholds, out = self.loaded.scorer(shard), self.model.thresholds, []
        for begin, rows in divide_rows(shard.rows, self.model.n_labels):
            some = questions[begin : begin + rows.size]
            only_given = np.array([question.only_given for question in some], dtype=bool)
            size = max((question.limit for question in some if not question.only_given), default=1)
            of_best, of_given = self.loaded.best(scorer, rows[~only_given], size), self.loaded.best(scorer, rows[only_given])
            for row, question in zip(rows.tolist(), some, strict=True):
                labels, scores = (each[: question.limit] for each in next(of_given if question.only_given else of_best))
                shown = probabilities(scores[None], *self.sigmoids, labels[None])[0]
                columns = zip(*(each.tolist() for each in (labels, scores, shown, scores > thresholds[labels])), strict=True)
                out.append(
                    [
                        Suggestion(label, probability, above, self._words(scorer, row, label, score, question.n_words))
                        for label, score, probability, above in columns
                        if probability >= question.least
                    ]
                )
        return out

    def _words(self, scorer: Scorer | ClassifierScorer, row: int, label: int, score: float, n: int) -> list[tuple[str, float]]:
        """The `n` features of a row that add most to a label's log-odds, or take most."""
        if n == 0 or self.features is None or not isinstance(scorer, Scorer):
            return []
        why = explain_score(scorer, self.features, row, row, label, score, set())
        slope = float(self.sigmoids[0][label])
        added = (slope * why.contributions[:n]).tolist()
        names = [self.rows_of.name(feature) for feature in why.features[:n].tolist()]
        return list(zip(names, added, strict=True))
