"""Wilbur's exhibits: the quick form beside plain calculations, which rows and labels are taken, and the rules of the claims."""

import json
import lzma
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hpcml.papers import bayes
from hpcml.papers.exhibit import Exhibit
from hpcml.papers.study import PaperStudy
from support import make

from hpcml import mpi
from hpcml.cli.app import _run_in
from hpcml.log import Log
from hpcml.run.session import Session

EXHIBITS = {exhibit.name: exhibit for exhibit in bayes.PAPER.exhibits}


def begun(folder, exhibit, quick=True, given=()):
    """The study of an exhibit."""
    session = Session(mpi.self_comm(), Log(0, quiet=True))
    return PaperStudy(session, exhibit, folder, partial(_run_in, session), quick=quick, given=given, anew=False)


def test_table_1_is_what_cv_finds(tmp_path):
    study = begun(tmp_path, EXHIBITS["table-1"])
    found = bayes.table_1(study)
    lines = study.lines(tmp_path / "made.csv")
    assert [line["method"] for line in lines] == list(bayes.METHODS)
    for line in lines:
        row = found.numbers[bayes.METHODS[line["method"]]]
        assert row["made text"] == pytest.approx(float(line["precision"]))
        assert row.get("made text, p") == (pytest.approx(float(line["p"])) if line["p"] else 1.0 if line["compared_with"] else None)
    assert bayes.SINGLE not in found.numbers and found.notes == ("made text: L5, 166 of 600 rows",)


def test_words_and_pairs_of_a_corpus(tmp_path, monkeypatch):
    """Of 60 documents 12 speak of ships; features and those with a weight are counted from the texts."""
    words, rng = ["sea", "corn", "wind", "rain", "field", "sun"], np.random.default_rng(3)
    rows = []
    for k in range(60):
        text = [str(word) for word in rng.choice(words[:4], 3)] + (["old", "ship"] if k % 5 == 0 else ["green", "field"])
        rows.append({"id": str(k), "title": "", "text": " ".join(text), "labels": ["ship"] if k % 5 == 0 else ["other"]})
    (tmp_path / "reuters21578.jsonl.xz").write_bytes(lzma.compress("\n".join(map(json.dumps, rows)).encode()))
    monkeypatch.setenv("HPCML_DATA", str(tmp_path))
    monkeypatch.setattr(bayes, "TOP", 5)
    monkeypatch.setattr(bayes, "RARE", 0.3)
    (tmp_path / "out").mkdir()
    study = begun(tmp_path / "out", Exhibit("features", 1, "a toy", corpora=("reuters21578",)), quick=False)
    numbers = bayes.features(study).numbers
    assert study.used == ["Reuters"]
    terms = {"SINGLE": [set(row["text"].split()) for row in rows]}
    pairs = [{" ".join(pair) for pair in zip(row["text"].split(), row["text"].split()[1:], strict=False)} for row in rows]
    terms["DOUBLE"] = [a | b for a, b in zip(terms["SINGLE"], pairs, strict=True)]
    for form, of_rows in terms.items():
        every = sorted(set.union(*of_rows))
        weights = []
        for term in every:
            with_label = sum(term in own for own, row in zip(of_rows, rows, strict=True) if row["labels"] == ["ship"])
            without = sum(term in own for own in of_rows) - with_label
            p, q = (with_label + 0.5) / 13, (without + 0.5) / 49
            weights.append(np.log(p * (1 - q) / (q * (1 - p))) if with_label else 0.0)
        expected = {
            "features": len(every),
            "with a weight": np.count_nonzero(weights),
            "weights > 1.5": (np.abs(weights) > 1.5).sum(),
        }
        assert numbers[f"Reuters, {form}"] == expected and expected["weights > 1.5"] > 0


@pytest.mark.parametrize(
    ("counts", "least", "expected"), [((9, 30, 20, 4), 5, "A"), ((9, 30, 20, 4), 10, "B"), ((12, 3, 9, 8), 1, "C")]
)
def test_the_label_is_the_most_frequent_of_the_rare(tmp_path, counts, least, expected):
    """Less than a tenth of 100 rows; if no label with rows enough is so rare, the one nearest to half."""
    Y = np.array([[row < count for count in counts] for row in range(100)], float)
    data = make.dataset(tmp_path / "rows.h5", np.ones((100, 2)), Y, label_names=list("ABCD"))
    assert bayes.chosen_label(data, least) == expected


def test_the_nearest_rows():
    X = sp.csr_matrix(np.array([[1, 0, 0], [0.6, 0.8, 0], [0.8, 0, 0.6], [0, 1, 0], [0, 0, 1.0], [0.6, 0, 0.8]]))
    found = bayes.nearest(X, np.array([0, 4]), np.array([1, 2, 3, 5]), 3)
    cosines = (X @ X[[0, 4]].T).toarray().max(axis=1)
    assert sorted(cosines[found]) == sorted(cosines[[1, 2, 5]]) and found.tolist() == [2, 5, 1]


def test_neighbours_are_lines_of_the_source(tmp_path):
    texts = [(["pos"], "red ship"), (["neg"], "red ship sails"), (["neg"], "green corn"), (["pos"], "red sea"), (["neg"], "ship")]
    texts += [(["pos"], "sea red"), (["neg"], "corn ship")]
    rows = [json.dumps({"id": str(k), "labels": labels, "text": text, "title": ""}) for k, (labels, text) in enumerate(texts)]
    (tmp_path / "in.jsonl.xz").write_bytes(lzma.compress("\n".join(rows).encode()))
    study = begun(tmp_path, EXHIBITS["table-1"], quick=False)
    study.run("convert", "jsonl", tmp_path / "in.jsonl.xz", "-o", tmp_path / "in.h5")
    n = bayes.write_neighbours(tmp_path / "in.h5", tmp_path / "in.jsonl.xz", tmp_path / "out.jsonl", "pos", (1, 2))
    chosen = [json.loads(line)["id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert n == 3 and chosen == ["0", "1", "4"]


GOOD_TABLE = {row: {"A": 50.0 + 5 * k, "A, p": 0.01} for k, row in enumerate(bayes.ORDER)}
GOOD_FEATURES = {
    "A, SINGLE": {"features": 100, "with a weight": 20, "weights > 1.5": 19},
    "A, DOUBLE": {"features": 300, "with a weight": 60, "weights > 1.5": 45},
}


@pytest.mark.parametrize("place", range(5))
def test_the_order_of_the_methods(place):
    claim, row, before = EXHIBITS["table-1"].claims[place], bayes.ORDER[place + 1], bayes.ORDER[place]
    assert len(EXHIBITS["table-1"].claims) == 5 and claim.holds(GOOD_TABLE)
    for change in ({"A, p": 0.011}, {"A": GOOD_TABLE[before]["A"]}, {"B": 90.0, "B, p": 0.02}):
        worse = deepcopy(GOOD_TABLE) | {before: GOOD_TABLE[before] | {"B": 80.0}}
        worse[row] = worse[row] | change
        assert not claim.holds(worse), change
    with pytest.raises(KeyError):
        claim.holds({name: columns for name, columns in GOOD_TABLE.items() if name != before})


@pytest.mark.parametrize(
    ("place", "row", "change"),
    [
        (0, "A, DOUBLE", {"features": 299}),
        (1, "A, SINGLE", {"with a weight": 21}),
        (1, "A, DOUBLE", {"with a weight": 61}),
        (2, "A, DOUBLE", {"weights > 1.5": 46}),
    ],
)
def test_the_claims_about_features(place, row, change):
    claims = EXHIBITS["features"].claims
    assert len(claims) == 3 and all(claim.holds(GOOD_FEATURES) for claim in claims)
    assert not claims[place].holds(GOOD_FEATURES | {row: GOOD_FEATURES[row] | change})
