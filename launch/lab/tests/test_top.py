"""Cross-validation by precision in the first ranks: the splits, ties, the bootstrap shift test, the table, CSV and picture."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hpcml.crossval.top_table import LEVEL, shift_test, top_csv_text
from hpcml.plots.differences import cv_with_picture
from hypothesis import given
from hypothesis import strategies as st
from sklearn.naive_bayes import MultinomialNB
from sklearn.svm import LinearSVC
from support.make import class_data, dataset
from support.oracles_ranking import over_ties, ranking
from support.tables import table

from hpcml.crossval import cross_validate_top
from hpcml.crossval.command import cv
from hpcml.crossval.methods import methods
from hpcml.crossval.protocols import TopRanks, precision_at, ranking_scores, training_order
from hpcml.errors import ConfigError
from hpcml.evaluation.ranking import break_even
from hpcml.log import Log
from hpcml.mpi import self_comm
from hpcml.rng import bits


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6), top=st.integers(1, 6))
def test_precision_is_the_mean_over_all_orders_of_ties(rows, top):
    scores, positive = np.array([row[0] for row in rows], dtype=float), np.array([row[1] for row in rows])
    top = min(top, len(rows))
    expected = over_ties(lambda order: 100 * sum(order[:top]) / top, scores, positive)
    assert precision_at(scores, positive, top) == pytest.approx(expected)


def test_precision_of_infinite_scores():
    scores = np.array([math.inf, math.inf, 1.0, -math.inf, -math.inf])
    positive = np.array([True, False, True, True, False])
    assert [precision_at(scores, positive, top) for top in (1, 2, 3, 4)] == pytest.approx([50, 50, 200 / 3, 62.5])


def exact_p(differences):
    """The shift test over all n^n resamples instead of some: the limit of p, by the definition."""
    mean = sum(differences) / len(differences)
    shifted = [d - mean for d in differences]
    far = [abs(sum(drawn)) / len(drawn) >= abs(mean) - 1e-12 for drawn in itertools.product(shifted, repeat=len(differences))]
    return sum(far) / len(far)


def slow_p(differences, seed):
    """The shift test, one resample after the other, of the same random bits."""
    n, far = len(differences), 0
    mean = sum(differences) / n
    draw = iter(int(each) % n for each in bits(seed, "bootstrap", np.arange(10_000 * n)))
    for _ in range(10_000):
        resampled = sum(differences[next(draw)] - mean for _ in range(n)) / n
        far += abs(resampled) >= abs(mean) - 1e-10
    return (far + 1) / 10_001


SERIES = [[1.0, 2.0, -1.0, 3.0, 0.5], [0.0, 0.0, 1.0, 0.0, 0.0], [-4.0, -5.0, -4.5, -6.0, -3.0], [2.0, 2.0, 2.0, 2.0, 2.0]]


def test_shift_test_is_that_of_slow_twins():
    found = shift_test(np.array(SERIES), 3)
    assert found.tolist() == [slow_p(series, 3) for series in SERIES]
    for p, series in zip(found, SERIES, strict=True):
        exact = exact_p(series)
        assert abs(p - exact) < 1e-3 + 4 * math.sqrt(exact * (1 - exact) / 10_000)
    assert found[3] == 1 / 10_001  # no resample of the shifted differences is as far from 0
    assert 0.02 < found[0] < 1 and found[2] < LEVEL
    assert shift_test(np.array(SERIES), 4).tolist() != found.tolist()


def test_shift_test_of_nothing():
    assert math.isnan(shift_test(np.zeros((1, 5)), 0)[0])
    assert shift_test(np.array([[1.0, -1.0, 2.0, -2.0]]), 0)[0] == 1.0
    assert shift_test(np.zeros((0, 5)), 0).size == 0


def test_shift_test_holds_its_level():
    """Of differences about 0, a p as small as 5 % is found in about 5 % of the tests."""
    p = shift_test(np.random.default_rng(0).standard_normal((600, 60)), 0)
    assert 0.03 < (p <= 0.05).mean() < 0.085


@given(n_positive=st.integers(4, 40), n_negative=st.integers(2, 60), top=st.integers(1, 12), seed=st.integers(0, 3))
def test_splits_hold_out_the_same_share(n_positive, n_negative, top, seed):
    protocol, n = TopRanks(3, top), n_positive + n_negative
    if not protocol.enough(np.array(n_positive), np.array(n_negative)):
        assert n_positive < 2 * top or top * n_negative / n_positive <= 0.5
        return
    draw = np.random.default_rng(n)
    has = (np.arange(n) < n_positive).astype(np.int64)
    rows = np.sort(draw.permutation(10 * n)[:n])
    masks = [protocol.judged(protocol.key(seed, label, part), part, rows, has) for label in (0, 1) for part in (0, 1)]
    for judged in masks:
        assert judged[has == 1].sum() == top
        assert abs(judged[has == 0].sum() - top * n_negative / n_positive) <= 0.5
        assert 0 < judged[has == 0].sum() < n_negative
    shuffled = draw.permutation(n)
    assert (protocol.judged(protocol.key(seed, 0, 0), 0, rows[shuffled], has[shuffled]) == masks[0][shuffled]).all()
    if top * (n_positive - top) > 100:
        assert len({mask.tobytes() for mask in masks}) == 4  # (label, split) each have a key of their own


def three_labels():
    """X and y of 60, 40 and 12 rows; every seventh row is empty, and many are equal."""
    draw = np.random.default_rng(5)
    y = np.repeat([0, 1, 2], [60, 40, 12])
    X = (draw.random((112, 6)) < np.where(np.arange(6) % 3 == y[:, None], 0.6, 0.2)).astype(np.float32)
    X[::7] = 0
    return X, y


@pytest.fixture
def path(tmp_path):
    X, y = three_labels()
    return dataset(tmp_path / "data.h5", sp.csr_matrix(X), np.eye(3)[y], label_names=["a", "b:c", "rare"])


def test_every_number_is_that_of_a_loop(path):
    X, y = three_labels()
    found = cross_validate_top(None, ["multinomial-nb", "svm"], [path], top=10, splits=4, seed=7)
    assert [problem.labels for problem in found.problems] == [["a", "b:c"]]
    protocol, rows = TopRanks(4, 10), np.arange(112)
    for label, part in itertools.product((0, 1), range(4)):
        has, key = (y == label).astype(int), protocol.key(7, label, part)
        judged, order = protocol.judged(key, part, rows, (y == label).astype(int)), training_order(key, rows)
        train = order[~judged[order]]
        bayes = MultinomialNB().fit(X[train], has[train]).predict_log_proba(X[judged])
        seed = int(bits(key, "cross-validation", np.array(part))) >> 32
        svm = LinearSVC(loss="hinge", C=1.0, max_iter=10_000, random_state=seed).fit(sp.csr_matrix(X[train]), has[train])
        for place, scores in enumerate((bayes[:, 1] - bayes[:, 0], svm.decision_function(sp.csr_matrix(X[judged])))):
            expected = 100 * break_even(ranking(scores, has[judged] == 1))  # ten positives, so the first ten ranks
            assert found.precision[0][label, part, place] == pytest.approx(expected)
    differences = found.precision[0][..., 1] - found.precision[0][..., 0]
    assert [line.p[1] for line in found.lines] == [slow_p(row.tolist(), 7) for row in differences]
    assert [line.means for line in found.lines] == found.precision[0].mean(axis=1).tolist()


def test_a_row_is_ranked_by_log_odds():
    """Probabilities of long rows round to 1, and so would tie."""
    X = np.array([[900.0, 0.0], [1000.0, 0.0], [0.0, 900.0], [0.0, 1000.0]])
    model = MultinomialNB().fit(X, np.array([1, 1, 0, 0]))
    assert len(set(model.predict_proba(X)[:, 1])) == 2
    assert np.argsort(ranking_scores(model, X)).tolist() == [3, 2, 0, 1]


def test_every_method_ranks(tmp_path):
    draw = np.random.default_rng(0)
    y = np.arange(120) < 40
    X = draw.random((120, 30)) < np.where(y[:, None] == (np.arange(30) % 2 == 0), 0.7, 0.2)
    path = dataset(tmp_path / "easy.h5", X.astype(np.float32), y[:, None].astype(float))
    found = cross_validate_top(None, [*methods(), "tree", "linear-svm"], [path], top=10, splits=2)
    for name, mean in zip(found.methods, found.lines[0].means, strict=True):
        assert mean > (60 if name in ("psbml", "tree") else 85), name  # a third of the rows have the label


def test_rare_labels_are_left_out(path, capsys):
    found = cross_validate_top(None, ["multinomial-nb"], [path], top=10, splits=2, log=Log(0))
    assert "1 with too few rows of a class are left out" in capsys.readouterr().err
    assert "data: 2 label(s) (1 with too few rows left out)" in str(found)
    with pytest.raises(
        ConfigError, match=r"--top 10 needs at least 20 rows with the label .* there are 12 rows with the label 'rare'"
    ):
        cross_validate_top(None, ["multinomial-nb"], [f"{path}:rare"], top=10, splits=2)
    with pytest.raises(ConfigError, match=r"--top 31 needs at least 62 rows with the label .* but no label"):
        cross_validate_top(None, ["multinomial-nb"], [path], top=31, splits=2)


def test_few_negatives_are_refused(tmp_path):
    X, _, _ = class_data(1, 43, 4, 2)
    path = dataset(tmp_path / "most.h5", abs(X), (np.arange(43) < 41)[:, None].astype(float))
    with pytest.raises(ConfigError, match="the same share of them is a row, but there are 41 rows with the label 'label0' and 2 "):
        cross_validate_top(None, ["multinomial-nb"], [f"{path}:label0"], top=10, splits=2)
    assert (
        cross_validate_top(None, ["multinomial-nb"], [path], top=11, splits=2).precision[0].min() > 90
    )  # one other row among the twelve


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (["multinomial-nb"], {"top": 0}, "--top 0: expected at least 1"),
        (["multinomial-nb"], {"splits": 1}, "--splits 1: expected at least 2"),
        ([], {}, "name at least one method"),
        (
            ["multinomial-nb", "svm"],
            {"top": 5, "splits": 2, "most_labels": 2},
            "room for 2 labels, not for 3; choose some with --label",
        ),
    ],
)
def test_options_that_make_no_sense(path, names, options, words):
    with pytest.raises(ConfigError, match=words):
        cross_validate_top(None, names, [path], **options)


@pytest.mark.parametrize(
    ("protocol", "options", "words"),
    [
        ("top", {"folds": 5}, "--folds: only --protocol folds has that"),
        ("top", {"baseline": "multinomial-nb", "top": 5}, "--baseline: only --protocol folds has that"),
        ("folds", {"top": 100, "splits": 100}, "--top, --splits: only --protocol top has that"),
        ("tops", {}, "--protocol tops: no such protocol; did you mean 'top'"),
    ],
)
def test_options_of_the_other_protocol(path, protocol, options, words):
    with pytest.raises(ConfigError, match=words):
        cv(self_comm(), ["multinomial-nb", str(path)], protocol=protocol, **options)


def test_table_csv_and_picture(path, tmp_path):
    names, options = ["multinomial-nb", "svm", "perceptron", str(path)], {"top": 10, "splits": 3, "seed": 1}
    paths = tmp_path / "out.csv", tmp_path / "out.png"
    text = cv_with_picture(self_comm(), names, *paths, False, Log(1), "top", **options)
    found = cross_validate_top(None, names[:3], [path], **options)
    assert text == f"{found}\n\npicture: {paths[1]}" and paths[0].read_text() == top_csv_text(found)
    assert paths[1].stat().st_size > 10_000
    assert ("with fewer than 50 splits" in text) and "with fewer" not in str(
        replace(found, splits=50, precision=[np.ones((2, 50, 3))])
    )
    shown = [line.split() for line in str(found).splitlines()[-4:]]
    assert [row[0] for row in shown] == ["precision", "data:a", "data:b:c", "mean"] and shown[0][-3:] == names[:3]
    lines = table(paths[0])
    assert [(line["label"], line["method"], line["compared_with"]) for line in lines] == [
        (label, name, before)
        for label in ("a", "b:c")
        for name, before in (("multinomial-nb", ""), ("svm", "multinomial-nb"), ("perceptron", "svm"))
    ]
    for line, cell, former in zip(lines, [*shown[1][1:], *shown[2][1:]], [None, *lines], strict=False):
        splits = [float(line[f"precision_{split}"]) for split in (1, 2, 3)]
        assert f"{np.mean(splits):.1f}{line['mark']}" == cell
        assert float(line["standard_deviation"]) == pytest.approx(np.std(splits, ddof=1))
        if line["compared_with"]:
            assert float(line["difference"]) == pytest.approx(float(line["precision"]) - float(former["precision"]))
            pairs = [float(line[f"precision_{split}"]) - float(former[f"precision_{split}"]) for split in (1, 2, 3)]
            assert line["p"] == (str(slow_p(pairs, 1)) if any(pairs) else "")
    assert {(line["held_out_positive"], line["held_out_negative"]) for line in lines} == {("10", "9"), ("10", "18")}


@pytest.mark.parametrize(
    ("names", "picture", "protocol", "words"),
    [
        (["multinomial-nb"], "new.png", "top", "name at least two"),
        (["multinomial-nb", "svm"], "new.gif", "top", "cannot draw a .gif"),
        (["multinomial-nb", "svm"], "same.png", "top", "--picture and --output are both"),
        (["multinomial-nb", "svm"], "old.png", "top", "exists already"),
        (["multinomial-nb", "svm"], "new.png", "folds", "--picture: only --protocol top has that"),
    ],
)
def test_pictures_that_cannot_be(path, tmp_path, names, picture, protocol, words):
    (tmp_path / "old.png").touch()
    with pytest.raises(ConfigError, match=words):
        cv_with_picture(self_comm(), [*names, str(path)], tmp_path / "same.png", tmp_path / picture, False, Log(1), protocol)
    assert not (tmp_path / "same.png").exists()
