"""The cycle of PSBML as described in the paper: dictionaries and loops over the nodes, one row at a time, no ranks."""

from collections import Counter

import numpy as np

from hpcml import rng

# Conditions on the distance in columns and rows for nodes to be neighbours.
NEAR = {
    "L5": lambda x, y: abs(x) + abs(y) <= 1,
    "L9": lambda x, y: (x == 0 or y == 0) and abs(x) + abs(y) <= 2,
    "C9": lambda x, y: max(abs(x), abs(y)) <= 1,
    "C13": lambda x, y: abs(x) + abs(y) <= 2,
}


def neighbourhood(width, height, kind, node):
    found = set()
    for dx in range(-2, 3):
        for dy in range(-2, 3):
            if NEAR[kind](dx, dy):
                found.add((node // width + dy) % height * width + (node % width + dx) % width)
    return sorted(found)


def certainty(classifier, row):
    if hasattr(classifier, "predict_proba"):
        best, second = sorted(classifier.predict_proba(row)[0].tolist(), reverse=True)[:2]
        return best - second
    return abs(float(classifier.decision_function(row)[0]))


def psbml_cycle(X, y, slots, make, width, height, kind, probability, seed, cycle):
    """The slots of every node, and the fitness of the row in each, after a cycle; and the range of fitness before.

    X: rows as the learner takes them; slots: {node: rows}; make(seed) is an unfitted classifier.
    """
    n_nodes = width * height
    judges = {}
    for node in range(n_nodes):
        rows = slots[node]
        if len(set(y[rows])) > 1:
            key = int(rng.bits(seed, "psbml train", np.array(cycle * n_nodes + node))) >> 32
            judges[node] = make(key).fit(X[rows], y[rows])

    certain = {}  # (judge, row)
    fitness = {}  # (node, row)
    for node in range(n_nodes):
        for row in set(slots[node]):
            seen = [float("inf")]
            for judge in neighbourhood(width, height, kind, node):
                if judge in judges:  # a node with a single class has no classifier
                    if (judge, row) not in certain:
                        certain[judge, row] = certainty(judges[judge], X[[row]])
                    seen.append(certain[judge, row])
            fitness[node, row] = min(seen)

    known = [value for value in fitness.values() if value < float("inf")]
    low, high = (min(known), max(known)) if known else (float("inf"), -float("inf"))

    def weight(node, row):
        return 1.0 if low >= high else 1.0 - (min(fitness[node, row], high) - low) / (high - low)

    new_slots, new_fitness = {}, {}
    for node in range(n_nodes):
        tickets = []  # ((node, row), number of slots, weight)
        for other in neighbourhood(width, height, kind, node):
            for row, count in sorted(Counter(slots[other]).items()):
                tickets.append(((other, row), count, weight(other, row)))
        if sum(count * one for _, count, one in tickets) == 0:
            tickets = [(key, count, 1.0) for key, count, _ in tickets]
        total = 0.0
        for _, count, one in tickets:
            total += count * one
        new_slots[node], new_fitness[node] = [], []
        for index, row in enumerate(slots[node]):
            source = (node, row)
            if float(rng.uniform(seed, f"psbml replace {cycle} {node}", np.array(index))) < probability:
                mark, passed = float(rng.uniform(seed, f"psbml draw {cycle} {node}", np.array(index))) * total, 0.0
                for key, count, one in tickets:
                    passed += count * one
                    if mark < passed:
                        source = key
                        break
            new_slots[node].append(source[1])
            new_fitness[node].append(fitness[source])
    return new_slots, new_fitness, low, high
