"""The papers' figures on real data: PROBE's iterations (table 3) and measures; PSBML on Adult (Kamath 2018, table 4)."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from support.converted import converted
from support.liblinear import beside_liblinear
from support.training import train

from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_rows
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.model.learner import fit, parse_learner, scores
from hpcml.model.open import open_model

TOPICS = ("earn", "acq", "money-fx", "grain", "crude", "trade", "interest", "wheat", "ship", "corn")
# Corpus, labels, bounds of the mean iterations (the paper's: Reuters 168.6, Newsgroups 173.4).
CORPORA = {"reuters21578": (TOPICS, 150, 190), "20newsgroups": ((), 150, 190)}


@pytest.mark.parametrize("corpus", sorted(CORPORA))
def test_probe_on_the_papers_corpora(data_dir, tmp_path, corpus):
    labels, low, high = CORPORA[corpus]
    data = converted("jsonl", data_dir / f"{corpus}.jsonl.xz", tmp_path / "data.h5").output
    report = train("probe", None, data, tmp_path / "run", {"label": labels, "bias": False})
    assert low <= report.mean_steps <= high
    figures = beside_liblinear(data, tmp_path / "run")
    assert abs(figures["map"]["difference"]) < 0.005
    assert abs(figures["break_even"]["difference"]) < 0.005
    assert figures["objective"]["largest_relative_error_of_reported_f"] < 1e-6
    assert figures["objective"]["probe"] < 1.05 * figures["objective"]["liblinear"]


PAPER = 0.9069  # area under the ROC curve of PSBML with naive Bayes on Adult


@pytest.fixture
def adult(data_dir, tmp_path):
    """a9a and its test rows."""
    for name, like in (("a9a", None), ("a9a.t", tmp_path / "a9a.h5")):
        converted("svmlight", data_dir / f"{name}.svm.xz", tmp_path / f"{name}.h5", like=like)
    return tmp_path / "a9a.h5", tmp_path / "a9a.t.h5"


def rows_and_classes(path):
    with DataFile(path) as data:
        return read_rows(data, np.arange(data.n_rows), False), np.diff(data.map("Y/indptr"))


def test_naive_bayes_gains_by_psbml(adult, tmp_path):
    X, y = rows_and_classes(adult[1])
    alone = fit(parse_learner(["kernel-nb"]), *rows_and_classes(adult[0]), 0)
    report = train("psbml", None, adult[0], tmp_path / "run", PsbmlOptions(base=("kernel-nb",)))
    model = open_model(report.model)
    area, area_alone = (roc_auc_score(y, scores(one, X, 2)[:, 0]) for one in (model.classifier, alone))
    wrong, wrong_alone = (np.count_nonzero((scores(one, X, 2)[:, 0] > 0) != y) for one in (model.classifier, alone))
    assert area > area_alone + 0.005
    assert abs(area - PAPER) < 0.015
    assert wrong < 0.85 * wrong_alone
    assert model.margin_rows.size < 0.5 * rows_and_classes(adult[0])[1].size
