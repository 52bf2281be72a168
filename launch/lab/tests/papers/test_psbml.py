"""The exhibits of the PSBML paper: the rule of each claim on made numbers, and numbers beside
independent calculations."""

import lzma
import math
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hpcml.papers import psbml, psbml_noise, psbml_quality, psbml_scale
from hpcml.papers.overlap import Overlap
from hpcml.papers.psbml_margin import AT_THE_MARGIN, BAND_NAMES, overlap_row
from hpcml.papers.registry import published
from hpcml.papers.study import PaperStudy
from scipy.stats import ttest_rel
from sklearn.metrics import roc_auc_score
from support.converted import converted

from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_rows
from hpcml.run.session import session_of

EXHIBITS = {exhibit.name: exhibit for exhibit in psbml.PAPER.exhibits}


def grids(distance=0.05, last=60.0):
    """Numbers of figures 3 and 6."""
    near = {"near, cycle 0": 20.0, "near, cycle 25": 40.0, "near, cycle 50": last}
    return {
        "PSBML": near,
        "mixtures": near,
        "both": {"distance, cycle 25": 0.01, "distance, cycle 50": distance},
        "modes without weights": {"negative": 0.1, "positive": 0.8},
        "modes, last cycle": {"negative": 0.38, "positive": 0.45},
    }


def moved(numbers, row, **columns):
    """The same numbers but for some."""
    return numbers | {row: numbers[row] | columns}


def weights(near=30.0, far=1.0):
    """Numbers of figure 4: the share at the margin, and elsewhere, in cycle 50."""
    at = {"cycle 1": 10.0, "cycle 10": 15.0, "cycle 25": 20.0, "cycle 50": near}
    off = {"cycle 1": 4.0, "cycle 10": 4.0, "cycle 25": 4.0, "cycle 50": far}
    return {f"radius {band}": at if band in AT_THE_MARGIN else off for band in BAND_NAMES}


def courses(**errors):
    """Numbers of figure 7 that hold in all; `errors` change the least error of a row."""
    least = {"L5": 6.0, "L9": 5.0, "C9": 4.0, "C13": 5.0, "0.1": 5.0, "0.4": 5.0, "0.6": 6.0} | errors
    numbers = {}
    for name, at_5 in (("L5", 9.0), ("L9", 6.0), ("C9", 7.0), ("C13", 6.0)):
        last = least[name] + (name != "C9")
        numbers[f"{name}, Pr 0.2"] = {"error, cycle 5": at_5, "least error": least[name], "error, cycle 30": last}
    numbers["C9, Pr 0.2"]["rows, cycle 10"] = 800.0
    for rate, left in (("0.1", 900.0), ("0.4", 600.0), ("0.6", 500.0)):
        numbers[f"C9, Pr {rate}"] = {"least error": least[rate], "rows, cycle 10": left}
    return numbers


SIZES = {"3x3": 98.5, "5x5": 98.0}
UCI = {name: {"train rows": float(n), "features": float(d)} for name, (n, d) in psbml_quality.PAPERS_SIZES.items()}
GAIN, LOSS, NOTHING = ({"difference": difference, "p": p} for difference, p in ((0.5, 0.01), (-0.5, 0.01), (-0.5, 0.2)))
MEANS = {base: {f"{name}, {base}": GAIN for name in "abc"} for base in ("NB", "C4.5", "Linear SVM")}
MACHINES = ("LibLinear", "SGDT", "SVM-PERF", "AdaBoostM1", "LibSVM")
BOARD = {f"{name}, {who}": {"accuracy": 70.0} for name in ("checkerboard", "sine") for who in MACHINES}
BOARD |= {f"{name}, PSBML (C4.5)": {"accuracy": 99.0} for name in ("checkerboard", "sine")}
ASYNC = {
    **{"p": {"a": 0.3, "b": 0.06}, "Async Speedup": {"a": 0.15, "b": 0.2}},
    **{"p, GPU": {"a": 0.3, "b": 0.06}, "GPU Speedup": {"a": 3.5, "b": 4.0}},
}
KDD = {
    "LibLinear": {"misclassified": 200.0, "ROC": 94.0, "PRC": 91.0},
    "PSBML (C4.5)": {"misclassified": 100.0, "ROC": 95.0, "PRC": 90.0},
}
NOISE = {f"{noise}, {who}": {"impact": 3.0} for noise in ("10 % noise", "20 % noise") for who in psbml_noise.BOOSTED}
NOISE |= {f"{noise}, PSBML/NB": {"impact": 2.0} for noise in ("10 % noise", "20 % noise")}
NOISE |= {f"no noise, {who}": dict.fromkeys("abcd", 80.0) for who in psbml_noise.BOOSTED}
NOISE |= {f"no noise, p of PSBML/NB and {who}": dict.fromkeys("abcd", 0.01) for who in psbml_noise.BOOSTED}
NOISE |= {"no noise, PSBML/NB": {"a": 81.0, "b": 81.0, "c": 81.0, "d": 79.0}}
GAUSSIANS = grids() | {
    "modes without weights": {"negative": -0.5, "positive": 0.5},
    "modes, last cycle": {"negative": -0.02, "positive": 0.09},
}
OVERLAPS = {"circle, least C": {"overlap": 85.0}, "gaussians, least C": {"overlap": 99.0}}


def grown(exponent):
    return {"growth": {"exponent": exponent}}


# Of each exhibit: its claims' numbers that hold, and for each claim numbers by which it does not.
RULES = {
    "figure-2": ({"circle": {"points": 2000.0, "positive %": 87.5}}, [{"circle": {"points": 2000.0, "positive %": 84.0}}]),
    "figure-3": (
        grids(),
        [grids(distance=0.11), grids(last=49.0), moved(grids(), "modes, last cycle", negative=0.2)],
    ),
    "figure-4": (weights(), [weights(near=19.0), weights(far=2.1)]),
    "figure-6": (GAUSSIANS, [GAUSSIANS | {"both": grids(0.2)["both"]}, GAUSSIANS | {"PSBML": grids(last=39.0)["PSBML"]}, grids()]),
    "table-1": (OVERLAPS, [moved(OVERLAPS, "circle, least C", overlap=84.9), moved(OVERLAPS, "gaussians, least C", overlap=42.0)]),
    "figure-7": (
        courses(),
        [
            moved(courses(), "L9, Pr 0.2", **{"error, cycle 5": 9.5}),
            moved(courses(), "C9, Pr 0.2", **{"error, cycle 30": 9.0}),
            courses(L9=3.9),
            moved(courses(), "C9, Pr 0.4", **{"rows, cycle 10": 850.0}),
            courses(**{"0.1": 3.0}),
        ],
    ),
    "table-2": (
        {"Chess": SIZES, "Chess, p": {"5x5": 0.05}},
        [{"Chess": SIZES, "Chess, p": {"5x5": 0.049}}, {"Chess": SIZES | {"7x7": 97.4}, "Chess, p": {"5x5": 0.5}}],
    ),
    "table-3": (UCI, [moved(UCI, "W8A", features=299.0)]),
    "table-4": (
        MEANS["NB"] | MEANS["C4.5"] | {"d, C4.5": NOTHING} | MEANS["Linear SVM"] | {"d, Linear SVM": LOSS},
        [MEANS["NB"] | {"d, NB": NOTHING}, MEANS["C4.5"] | {"d, C4.5": LOSS}, MEANS["Linear SVM"] | {"c, Linear SVM": NOTHING}],
    ),
    "table-5": (
        BOARD,
        [
            moved(BOARD, "checkerboard, LibSVM", accuracy=99.1),
            moved(BOARD, "sine, AdaBoostM1", accuracy=99.1),
            moved(BOARD, "sine, SGDT", accuracy=79.1),
        ],
    ),
    "table-6": (
        ASYNC,
        [moved(ASYNC, row, a=less) for row, less in (("p", 0.04), ("Async Speedup", 0.09), ("p, GPU", 0.04), ("GPU Speedup", 2.9))],
    ),
    "table-7": (
        KDD,
        [moved(KDD, "LibLinear", misclassified=99.0), moved(KDD, "LibLinear", ROC=95.1), moved(KDD, "LibLinear", PRC=92.1)],
    ),
    "figure-9": (grown(1.1), [grown(1.3)]),
    "figure-10": (
        {"1 rank": {"speed-up": 1.0}, "2 ranks": {"speed-up": 1.5}},
        [{"1 rank": {"speed-up": 1.0}, "2 ranks": {"speed-up": 1.3}}],
    ),
    "figure-11": (grown(0.9), [grown(0.7)]),
    "table-8": (
        NOISE,
        [
            moved(NOISE, "no noise, p of PSBML/NB and AdaBoostM1/NB", c=0.06),
            moved(NOISE, "10 % noise, AdaBoostM1/DS", impact=1.9),
            moved(NOISE, "20 % noise, AdaBoostM1/NB", impact=1.9),
        ],
    ),
}


def test_every_claim_has_its_rules_here():
    assert {name: len(exhibit.claims) for name, exhibit in EXHIBITS.items() if exhibit.claims} == {
        name: len(against) for name, (_, against) in RULES.items()
    }


@pytest.mark.parametrize("name", RULES)
def test_a_claim_holds_by_its_rule_alone(name):
    good, against = RULES[name]
    for claim, bad in zip(EXHIBITS[name].claims, against, strict=True):
        assert claim.holds(good) is True or claim.holds(good) == np.True_
        assert not claim.holds(bad)
        with pytest.raises(KeyError):
            claim.holds({"another": {"column": 1.0}})


def test_all_exhibits_are_there_in_the_papers_order():
    tables, figures = ([name for name in EXHIBITS if name.startswith(kind)] for kind in ("table", "figure"))
    assert tables == [f"table-{k}" for k in range(1, 9)]
    assert figures == [f"figure-{k}" for k in range(1, 12)]
    assert [name for name, exhibit in EXHIBITS.items() if exhibit.make is None] == ["figure-1"]


def test_the_papers_impacts_follow_from_its_areas():
    """Section 6.4, from table 8, within 0.6: what it prints is not always the mean of the table's differences."""
    printed = published("psbml", "table-8")
    for noise in ("10 % noise", "20 % noise"):
        for who in (*psbml_noise.BOOSTED, "PSBML/NB"):
            noisy = {name: value for name, value in printed[f"{noise}, {who}"].items() if name != "impact"}
            found = psbml_noise.impact(printed[f"no noise, {who}"], noisy)
            assert found == pytest.approx(printed[f"{noise}, {who}"]["impact"], abs=0.6)


def test_rows_of_table_1():
    found = overlap_row([Overlap(1.0, 0.1, 0.2, 0.02, 20, 8.0), Overlap(0.8, 0.1, 0.4, 0.04, 40, 2.0)])
    shares = {"overlap": 90, "deviation": 10 * math.sqrt(2), "by chance": 10, "hard rows that are vectors": 30}
    assert found == pytest.approx(shares | {"support vectors": 30, "C": 5})


def test_exponents_and_p_values():
    assert psbml_scale.exponent([10, 100, 1000], [3 * n**1.3 for n in (10, 100, 1000)]) == pytest.approx(1.3)
    ours, theirs = [1.0, 2.0, 4.0], [0.5, 1.8, 3.0]
    gains = np.subtract(ours, theirs)
    t = gains.mean() / (gains.std(ddof=1) / math.sqrt(3))
    assert ttest_rel(ours, theirs).statistic == pytest.approx(t)
    assert psbml_quality.p_value(ours, theirs) == pytest.approx(1 - abs(t) / math.sqrt(2 + t * t))  # of 2 degrees of freedom
    assert psbml_quality.p_value(ours, ours) == 1.0


def test_areas_of_table_8_are_those_of_scikit_learn(tmp_path):
    """Naive Bayes and AdaBoostM1 of stumps without noise, trained by hand on the rows that the exhibit says."""
    path = tmp_path / "board.h5"
    converted("synthetic", "checkerboard", path, rows=300)
    found = psbml_noise.areas_of_seed(path, 120, 2, 7)
    train, test = psbml_noise.drawn(path, 7, 120)
    assert (train.size, test.size) == (120, 90) and not set(train) & set(test)
    assert len(found) == 12 and all(0 <= area <= 100 for area in found.values())
    with DataFile(path) as data:
        y = np.diff(data.map("Y/indptr"))
        X, X_test = read_rows(data, train, True), read_rows(data, test, True)
    for method in ("NB", "AdaBoostM1/DS"):
        score = psbml_noise.score_of(method, X, y[train], X_test, (7, 2))
        assert found[f"no noise, {method}"] == pytest.approx(100 * roc_auc_score(y[test], score))
        assert found[f"20 % noise, {method}"] != found[f"no noise, {method}"]


def test_a_sample_is_some_lines_of_the_file_in_their_order(tmp_path):
    lines = [f"{1 - 2 * (k % 2)} 1:{k}\n" for k in range(50)]
    (tmp_path / "set.t.svm.xz").write_bytes(lzma.compress("".join(lines).encode()))
    folder = tmp_path / "s"
    folder.mkdir()
    with session_of(None) as session:
        study = PaperStudy(session, EXHIBITS["table-4"], folder, lambda _: None, quick=False, given=(), anew=False)
        path = study.sample(tmp_path / "set.t.svm.xz", 20)
        some = path.read_text().splitlines(keepends=True)
        assert len(set(some)) == 20 and some == [line for line in lines if line in some] and some != lines[:20]
        path.write_text("kept\n")
        again = PaperStudy(session, EXHIBITS["table-4"], folder, lambda _: None, quick=False, given=(), anew=False)
        assert again.sample(tmp_path / "set.t.svm.xz", 20).read_text() == "kept\n"  # it is drawn once


@pytest.mark.parametrize("gpu", [False, True])
def test_runs_on_a_gpu_where_there_is_one(tmp_path, monkeypatch, gpu):
    """Without one their rows are not there, and nothing is claimed of them."""
    asked = []

    class Study:
        quick, folder, session = True, tmp_path, Mock()

        def root(self, find):
            return find()

        def datasets(self, most):
            yield from (Mock(train=Path("a.h5"), test=Path("a.h5")),)

        def run(self, *words):
            asked.append("gpu" in words)
            return 1.0 if "gpu" in words else 4.0

        def measures(self, run, data):
            return {"micro": {"auc": 0.5 + len(asked) ** 2 / 1000}}

    monkeypatch.setattr(psbml_scale, "has_gpu", lambda: gpu)
    Study.session.comm.size = 2
    numbers = psbml_scale.table_6(Study()).numbers
    assert sum(asked) == 2 * gpu and len(asked) == 4 + 2 * gpu
    assert set(numbers) == {"PSBML Sync", "PSBML Async", "p", "Async Speedup"} | (
        {"PSBML GPU", "p, GPU", "GPU Speedup"} if gpu else set()
    )
    claims = [claim.holds for claim in psbml_scale.TABLE_6]
    if gpu:
        assert [*numbers["GPU Speedup"].values()] == [4.0] and claims[3](numbers)
    else:
        for claim in claims[2:]:
            with pytest.raises(KeyError):
                claim(numbers)
