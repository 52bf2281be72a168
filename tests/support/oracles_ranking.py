"""Slow textbook versions of the ranking measures and of the counts they are made from."""

import itertools

import numpy as np

from hpcml.measures import Ranking


def ranking(scores, positive):
    """The counts of a ranking, by comparing everything with everything."""
    scores, positive = np.asarray(scores, dtype=float), np.asarray(positive, dtype=bool)
    values = np.array(sorted(set(scores[positive].tolist()), reverse=True))

    def count(chosen, compare):
        return np.array([int(compare(chosen, v).sum()) for v in values], dtype=np.int64)

    predicted = scores > 0
    return Ranking(
        greater=count(scores, np.greater),
        equal=count(scores, np.equal),
        relevant=count(scores[positive], np.equal),
        n_items=scores.size,
        n_predicted=int(predicted.sum()),
        n_hits=int((predicted & positive).sum()),
    )


def orders(scores, positive):
    """Every ranking of `positive` by falling score that some order of the tied items gives, as 0/1 tuples (with repeats)."""
    groups = [[int(p) for s, p in zip(scores, positive, strict=True) if s == v] for v in sorted(set(scores), reverse=True)]
    for choice in itertools.product(*(list(itertools.permutations(g)) for g in groups)):
        yield [item for group in choice for item in group]


def average_precision(order):
    hits = np.cumsum(order)
    return sum(hits[i] / (i + 1) for i in range(len(order)) if order[i]) / sum(order)


def break_even(order):
    return sum(order[: sum(order)]) / sum(order)


def over_ties(measure, scores, positive):
    """The mean of a measure over all orders of tied items."""
    return float(np.mean([measure(order) for order in orders(scores, positive)]))
