"""Slow twins of `hpcml duplicates`: all pairs of rows, by sets; the labels of pairs, one by one."""

from itertools import combinations, pairwise

import numpy as np

from support import make


def slow_pairs(sets, least):
    groups, found = {}, {}
    for row, features in enumerate(sets):
        if features:
            groups.setdefault(frozenset(features), []).append(row)
    for rows in groups.values():
        found |= dict.fromkeys(pairwise(rows), 1.0)
    for (one, rows), (other, others) in combinations(groups.items(), 2):
        similarity = len(one & other) / len(one | other)
        if similarity >= least:
            found[tuple(sorted((rows[0], others[0])))] = similarity
    return found


def slow_counted(pairs):
    best = {}
    for (first, other), similarity in pairs.items():
        best[other] = max(best.get(other, (0, 0)), (similarity, first))
    return {(first, other) for other, (_, first) in best.items()}


def slow_consistency(pairs, label_sets, label):
    ones = sum((label in label_sets[a]) + (label in label_sets[b]) for a, b in slow_counted(pairs))
    both = sum(label in label_sets[a] and label in label_sets[b] for a, b in slow_counted(pairs))
    return ones, both


def alike_rows(rng, n_rows, n_features, n_labels):
    sets, label_sets = [], []
    for row in range(n_rows):
        if row and rng.random() < 0.6:
            near = int(rng.integers(row))
            features = {j for j in sets[near] if rng.random() > 0.04}
            features |= set(rng.integers(0, n_features, rng.integers(0, 3)).tolist())
            labels = {label for label in label_sets[near] if rng.random() > 0.2}
            if rng.random() < 0.3:
                features = set(sets[near])
        else:
            features = set(rng.integers(0, n_features, rng.integers(0, 40)).tolist())
            labels = set(rng.integers(0, n_labels, rng.integers(0, 4)).tolist())
        sets.append(features)
        label_sets.append(labels)
    return sets, label_sets


def alike_data(path, rng, n_rows, n_features=200, n_labels=5, **options):
    sets, label_sets = alike_rows(rng, n_rows, n_features, n_labels)
    X, Y = np.zeros((n_rows, n_features)), np.zeros((n_rows, n_labels))
    for row, (features, labels) in enumerate(zip(sets, label_sets, strict=True)):
        X[row, list(features)], Y[row, list(labels)] = 1, 1
    return sets, label_sets, make.dataset(path, X, Y, ones=True, **options)
