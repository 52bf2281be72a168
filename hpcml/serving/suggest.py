"""The headings of texts by a model: probabilities, and the words that speak for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.conversion.text import Values
from hpcml.conversion.vocabulary import Field
from hpcml.data.shard import Shard
from hpcml.evaluation.explain import Features, explain_score
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.top import top_of
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model
from hpcml.model.scoring import ClassifierScorer, Scorer, divide_rows, make_scorer
from hpcml.prediction.predict import Prediction
from hpcml.prediction.raw_rows import RowMaker


@dataclass(frozen=True)
class Suggestion:
    """A label of a text: its probability, whether its score is above the threshold, and words.

    `words` are features of the text by what they add to the log-odds, the largest first, whichever
    sign; none if none are wanted.
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
    """Gives texts headings. It holds the words, and a sparse model's weights by columns."""

    def __init__(self, comm: mpi.Comm, model: Model | ClassifierModel) -> None:
        """Collective over `comm`, of one rank. Raises ConfigError for a model without probabilities or not of texts, DataError."""
        self.model, self.sigmoids = model, model.check_probabilities()
        self.rows_of = RowMaker(model).few_texts
        self.fields: tuple[Field, ...] = self.rows_of.fields
        titles = model.label_titles or model.label_names
        self.titles = [title or name for title, name in zip(titles, model.label_names, strict=True)]
        self.labels = np.arange(model.n_labels)
        scorer = make_scorer(model, self.rows_of([]), self.labels)
        scorer.warm_up(comm)
        self.top: Any = top_of(comm, scorer, 1, Prediction.room_for_weights(model), by_pairs=True)
        self.features = Features(model) if isinstance(model, Model) and model.combination is None else None
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
        scorer, thresholds, out = make_scorer(self.model, shard, self.labels), self.model.thresholds, []
        for begin, rows in divide_rows(shard.rows, self.model.n_labels):
            some = questions[begin : begin + rows.size]
            only_given = np.array([question.only_given for question in some], dtype=bool)
            size = max((min(question.limit, self.model.n_labels) for question in some if not question.only_given), default=1)
            best = self.top.best(scorer, rows[~only_given], size)
            of_best, of_all = zip(best.labels, best.scores, strict=True), iter(self.top.all_scores(scorer, rows[only_given]))
            for row, question in zip(rows.tolist(), some, strict=True):
                if question.only_given:  # those above their thresholds, best first
                    every = next(of_all)
                    labels = np.flatnonzero(every > thresholds)
                    labels = labels[np.lexsort((labels, -self.top.comparable.values(every[labels], labels)))][: question.limit]
                    scores = every[labels]
                else:
                    labels, scores = (values[: question.limit] for values in next(of_best))
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
