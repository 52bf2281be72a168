"""BioASQ's measures from sets of labels, slowly and by their definitions; and a file of articles."""

import itertools
import math


def flat(true, given):
    """`true`, `given`: a set of labels for each row."""
    rows = [(t, g) for t, g in zip(true, given, strict=True) if t | g]
    labels = sorted(set().union(*true, *given))
    has = {c: sum(c in t for t in true) for c in labels}
    got = {c: sum(c in g for g in given) for c in labels}
    hit = {c: sum(c in t and c in g for t, g in zip(true, given, strict=True)) for c in labels}
    mean = lambda values: math.fsum(values) / len(values) if values else math.nan  # noqa: E731
    p, r = (sum(hit.values()) / total if (total := sum(n.values())) else math.nan for n in (got, has))
    f1 = []
    for c in labels:
        if has[c]:
            precision, recall = hit[c] / max(1, got[c]), hit[c] / has[c]
            f1.append(2 * precision * recall / (precision + recall) if hit[c] else 0.0)
    return {
        "EBP": mean([len(t & g) / len(g) if g else 0.0 for t, g in rows]),
        "EBR": mean([len(t & g) / len(t) if t else 0.0 for t, g in rows]),
        "EBF": mean([2 * len(t & g) / (len(t) + len(g)) for t, g in rows]),
        "Acc": mean([len(t & g) / len(t | g) for t, g in rows]),
        "MaP": mean([hit[c] / got[c] for c in labels if got[c]]),
        "MaR": mean([hit[c] / has[c] for c in labels if has[c]]),
        "MaF": mean(f1),
        "MiP": p,
        "MiR": r,
        "MiF": 2 * p * r / (p + r) if p + r > 0 else p + r,
    }


def ways_up(node, places):
    """Every way from a node to the root, as tuples; by the definition of the page, from tree numbers alone."""
    if node == "":
        return [("",)]
    if node.startswith("/"):
        return [(node, "")]
    above = set()
    for place in places.get(node, ()):
        parts = place.split(".")
        for size in range(len(parts) - 1, 0, -1):
            at = {name for name, numbers in places.items() if ".".join(parts[:size]) in numbers}
            if at:
                above |= at
                break
        else:
            above.add("/" + place[0])
    above -= {node}
    return [(node, *way) for each in sorted(above or {""}) for way in ways_up(each, places)]


def lowest(labels, places):
    """Labels that lie on no way from another of them to the root."""
    return sorted(a for a in labels if not any(a in way[1:] for b in labels for way in ways_up(b, places)))


def joins(own, others, places):
    """What joins each of `own` with its nearest of `others`: (label, ancestor, other), from all pairs of ways to the root."""
    for a in own:
        found = {}
        for b in [a] if a in others else others:
            for x, y in itertools.product(ways_up(a, places), ways_up(b, places)):
                for node in set(x) & set(y):
                    found.setdefault(x.index(node) + y.index(node), set()).add((a, node, b))
        yield from found[min(found)]


def lca(true, given, places):
    """LCA-P, LCA-R and LCA-F of one row: all pairs of ways to the root, and all sets of ancestors from small to large."""
    if not true or not given:
        return 0.0, 0.0, 0.0
    sides = [lowest(set(true), places), lowest(set(given), places)]
    both = set(sides[0]) & set(sides[1])
    pairs = {(0, a, node) for a, node, _ in joins(sides[0], sides[1], places)}
    pairs |= {(1, b, node) for _, node, b in joins(sides[0], sides[1], places)}
    pairs |= {(1, b, node) for b, node, _ in joins(sides[1], sides[0], places)}
    pairs |= {(0, a, node) for _, node, a in joins(sides[1], sides[0], places)}
    pairs = {pair for pair in pairs if pair[1] not in both or pair[1] == pair[2]}
    labels = {pair[:2] for pair in pairs}
    nodes = sorted({node for _, _, node in pairs})
    every = (each for size in range(len(nodes) + 1) for each in itertools.combinations(nodes, size))
    chosen = next(each for each in every if all(any((*label, node) in pairs for node in each) for label in labels))
    graphs, reached = [set(), set()], [set(), set()]

    def go(side, label, node):
        ways = [way[: way.index(node) + 1] for way in ways_up(label, places) if node in way]
        graphs[side] |= set(min(ways, key=lambda way: (len(way), way)))
        reached[side].add(node)

    for side, label in labels:
        go(side, label, next(node for node in chosen if (side, label, node) in pairs))
    for side, node in [(side, node) for side in (0, 1) for node in chosen if node not in reached[side]]:
        below = [(way.index(node), label) for label in sides[side] for way in ways_up(label, places) if node in way]
        go(side, min(below)[1], node)
    common = len(graphs[0] & graphs[1])
    return common / len(graphs[1]), common / len(graphs[0]), 2 * common / (len(graphs[0]) + len(graphs[1]))
