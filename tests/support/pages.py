"""Generated contents of reports, without training."""

from pathlib import Path

import numpy as np

from hpcml.evaluation.curves import Bin, Curve
from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.rows import FrequentLabels
from hpcml.evaluation.wrong import KINDS, WrongRow
from hpcml.reporting.gather import LISTED, Facts, RunReport, most_frequent


def evaluation(names, seed=0, n_rows=5000):
    rng, n = np.random.default_rng(seed), len(names)
    n_positive = np.minimum(n_rows, (1 / rng.random(n)).astype(np.int64) + 1)
    n_positive[-1] = 0
    hits = rng.binomial(n_positive, 0.6)
    given = hits + rng.poisson(0.3 * n_positive + 0.2)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = {"precision": hits / given, "recall": hits / n_positive, "f1": 2 * hits / (given + n_positive)}
    values["misclassified"] = (given + n_positive - 2 * hits).astype(float)
    for name in ("average_precision", "break_even", "auc"):
        values[name] = np.where(n_positive > 0, rng.random(n), np.nan)
    out = Evaluation("m.h5", "d.h5", "test", n_rows, np.arange(n), list(names), n_positive, [], 0)
    out.values = values
    totals = hits.sum(), given.sum(), n_positive.sum()
    out.micro = dict.fromkeys(values, 0.5) | {
        "precision": totals[0] / totals[1],
        "recall": totals[0] / totals[2],
        "f1": 2 * totals[0] / (totals[1] + totals[2]),
    }
    out.precision_at = out.ndcg_at = {1: 0.9, 3: 0.8, 5: 0.7}
    out.by_frequency = [FrequentLabels(100, n, 0.6, 0.5, 0.4)]
    return out


def run_report(names, seed=0, name="run", bins=True, most=LISTED, sigmoids=None):
    e, rng = evaluation(names, seed), np.random.default_rng(seed + 1)
    e.compared_by = "score" if sigmoids is None else "probability"
    n, hits = len(names), np.arange(1, 301)
    curve = Curve("all labels", n, np.linspace(3, -3, 300), hits + hits**2 // 100, hits, 320, 0.7)
    wrong = {kind: [WrongRow(k, k % n, 3.0 - k / 9, 0.1 * k) for k in range(9)] for kind in KINDS}
    listed = most_frequent(e.n_positive, most)
    pick = [str(word) for word in names[:40]]
    return RunReport(
        facts=Facts(
            name,
            "dual",
            f"2026-01-02 03:04 UTC by hpcml 0.1, on 9 rows of split train of {pick[0]}",
            [("data", pick[0])],
            [("loss", "hinge")],
            [("ranks", "2"), ("arguments", pick[0])],
            [("iterations per label", "mean 7")],
        ),
        evaluation=e,
        data=Path("d.h5"),
        n_trained_on=e.n_positive * 4,
        table_labels=listed,
        thresholds=rng.standard_normal(n),
        sigmoids=None if sigmoids is None else tuple(np.full(n, value) for value in sigmoids),
        status=["converged"] * (listed.size - 1) + ["degenerate"],
        gap=10.0 ** -rng.integers(2, 6, n)[listed],
        words=[[(pick[(k + j) % len(pick)], 1.0 - j) for j in range(6)] for k in listed.tolist()],
        micro=curve,
        of_groups=[curve, curve],
        bins=[Bin(0.05, 0.04, 12_345_678), Bin(0.9, 0.8, 12)] if bins else [],
        wrong=wrong,
        row_ids={k: pick[k % len(pick)] for k in range(9)},
        titles={name: name for name in pick},
    )
