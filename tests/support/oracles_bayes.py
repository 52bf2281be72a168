"""Naive Bayes, boosted and in stages, row by row, from the text of Wilbur 2000. Rows are sets of features."""

import math

import numpy as np
from scipy.stats import chi2_contingency
from sklearn.svm import SVC

LOG_19 = math.log(19)


def rows_of(X):
    return [{j for j, x in enumerate(row) if x != 0} for row in X.toarray()]


def naive_bayes(rows, has, smoothing=0.5, min_weight=1.5, weights=None):
    """({feature: weight}, the score of a row with none of these): weights of terms that a row with the label has."""
    weights = [1.0] * len(rows) if weights is None else weights
    size = {flag: sum(w for w, y in zip(weights, has, strict=True) if y == flag) for flag in (0, 1)}
    found, absent = {}, 0.0
    for term in sorted({term for row, y in zip(rows, has, strict=True) for term in row if y}):
        share = {}
        for flag in (0, 1):
            present = sum(w for row, w, y in zip(rows, weights, has, strict=True) if y == flag and term in row)
            share[flag] = (present + smoothing) / (size[flag] + 2 * smoothing)
        p, q = share[1], share[0]
        weight = math.log(p * (1 - q) / (q * (1 - p)))
        if abs(weight) >= min_weight:
            found[term] = weight
            absent += math.log((1 - p) / (1 - q))
    return found, absent


def score(row, found):
    return sum((found[term] for term in sorted(row) if term in found), 0.0)


def pool_adjacent_violators(scores, has, weights):
    """{score: non-decreasing maximum-likelihood probability}"""
    pools = []  # [scores, weight, weight of the positive rows]
    for value in sorted(set(scores)):
        mine = [(w, y) for s, y, w in zip(scores, has, weights, strict=True) if s == value]
        pools.append([[value], sum(w for w, _ in mine), sum(w for w, y in mine if y)])
        while len(pools) > 1 and pools[-2][2] / pools[-2][1] >= pools[-1][2] / pools[-1][1]:
            values, weight, positive = pools.pop()
            pools[-1] = [pools[-1][0] + values, pools[-1][1] + weight, pools[-1][2] + positive]
    return {value: min(1.0, positive / weight) for values, weight, positive in pools for value in values}


def hypothesis(probability, value):
    """The probability of the smallest training score that is not below `value`, else of the largest one."""
    above = [known for known in probability if known >= value]
    return probability[min(above) if above else max(probability)]


def boosted(rows, has, test_rows, n_rounds=6, trim=0.2, **options):
    w = [1.0 / len(rows)] * len(rows)
    used, votes, totals, epsilons = list(range(len(rows))), [], np.zeros(len(test_rows)), []
    for _ in range(n_rounds):
        p = [value / sum(w) for value in w]
        scale = len(used) / sum(p[i] for i in used)  # mean weight 1, a choice of ours
        if len({has[i] for i in used}) < 2:
            break
        found, _ = naive_bayes([rows[i] for i in used], [has[i] for i in used], weights=[scale * p[i] for i in used], **options)
        scores = [score(row, found) for row in rows]
        probability = pool_adjacent_violators(scores, has, p)
        errors = [abs(hypothesis(probability, s) - y) for s, y in zip(scores, has, strict=True)]
        epsilon = sum(a * b for a, b in zip(p, errors, strict=True))
        if epsilon >= 0.5 and votes:
            break
        epsilons.append(epsilon)
        beta = max(epsilon, 1e-12) / (1 - max(epsilon, 1e-12))
        votes.append(math.log(1 / beta))
        totals += votes[-1] * np.array([hypothesis(probability, score(row, found)) for row in test_rows])
        if epsilon <= 1e-12:
            break
        w = [value * beta ** (1 - error) for value, error in zip(p, errors, strict=True)]
        order, gone = sorted(range(len(rows)), key=lambda i: errors[i]), 0.0
        used = set(range(len(rows)))
        for i in order:
            gone += w[i] / sum(w)
            if gone > trim:
                break
            used.discard(i)
        used = sorted(used)
    return totals / sum(votes), epsilons


def staged(rows, has, test_rows, stage, cut=LOG_19, factors=(3.0,), **options):
    """(number of stages passed, score) of each test row; `stage` trains a stage and returns its scoring function."""
    positive = [row for row, y in zip(rows, has, strict=True) if y]
    first, _ = naive_bayes(rows, has, **options)
    negative = [row for row, y in zip(rows, has, strict=True) if not y]
    scorers = [lambda row: score(row, first)]
    for _ in factors:
        negative = [row for row in negative if scorers[-1](row) >= cut]
        scorers.append(stage(positive, negative) if negative else lambda row: 0.0)
    keys = []
    for row in test_rows:
        place, value = 0, scorers[0](row)
        passed = value > cut
        for factor, scorer in zip(factors, scorers[1:], strict=True):
            if passed:
                place, value, passed = place + 1, value + factor * scorer(row), scorer(row) > cut
        keys.append((place, value))
    return keys


def bayes_stage(**options):
    def stage(positive, negative):
        found, _ = naive_bayes(positive + negative, [1] * len(positive) + [0] * len(negative), **options)
        return lambda row: score(row, found)

    return stage


def svm_stage(n_features):
    def stage(positive, negative):
        rows, chosen = positive + negative, []
        for term in range(n_features):
            a, b = (sum(term in row for row in some) for some in (positive, negative))
            table = [[a, b], [len(positive) - a, len(negative) - b]]
            if a + b and a + b < len(rows) and chi2_contingency(table, correction=False)[0] > 3.84:
                chosen.append(term)
        if not chosen:
            return lambda row: 0.0
        svm = SVC(kernel="linear", C=0.1, tol=0.01)
        svm.fit([[float(term in row) for term in chosen] for row in rows], [1] * len(positive) + [0] * len(negative))
        return lambda row: float(svm.decision_function([[float(term in row) for term in chosen]])[0])

    return stage
