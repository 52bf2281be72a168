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


def lca(true, given, places):
    """LCA-P, LCA-R and LCA-F of one row, by looking at every pair of ways to the root."""
    if not true or not given:
        return 0.0, 0.0, 0.0
    of_true, of_given = set(true), set(given)
    for own, others, mine, theirs in ((true, given, of_true, of_given), (given, true, of_given, of_true)):
        for a in own:
            found = []
            for b in others:
                for x, y in itertools.product(ways_up(a, places), ways_up(b, places)):
                    for node in set(x) & set(y):
                        up, over = x[: x.index(node) + 1], y[: y.index(node) + 1]
                        found.append((len(up) + len(over), len(up), node, b, up, over))
            best = min(found)
            mine |= set(best[4])
            theirs |= set(best[5])
    common = len(of_true & of_given)
    return common / len(of_given), common / len(of_true), 2 * common / (len(of_given) + len(of_true))
