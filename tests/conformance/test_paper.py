"""The papers' figures on real data: PROBE's iterations (table 3) and measures; PSBML on Adult (Kamath 2018, table 4)."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.svm import LinearSVC
from support.converted import converted
from support.oracles import hinge_objective
from support.training import train

from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_rows
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.model.learner import fit, parse_learner, scores
from hpcml.model.linear import Model
from hpcml.model.open import open_model

TOPICS = ("earn", "acq", "money-fx", "grain", "crude", "trade", "interest", "wheat", "ship", "corn")
# Corpus, labels, bounds of the mean iterations (the paper's: Reuters 168.6, Newsgroups 173.4).
CORPORA = {"reuters21578": (TOPICS, 150, 190), "20newsgroups": ((), 150, 190)}


def beside_liblinear(path, model):
    with DataFile(path) as data:
        names, Y = (
            data.label_names(),
            sp.csr_matrix((np.ones(data.map("Y/indices").size), data.map("Y/indices"), data.map("Y/indptr"))),
        )
        train_rows, test_rows = (data.map(f"splits/{name}")[:] for name in ("train", "test"))
        X_train, X_test = (read_rows(data, rows, False).astype(np.float64) for rows in (train_rows, test_rows))
    lam, has, found = float(model.attrs["lambda"]), Y.tocsc(), []
    for k, name in enumerate(model.label_names):
        y = has[:, [names.index(name)]].toarray().ravel() > 0
        sign, w = np.where(y[train_rows], 1.0, -1.0), model.weights(k).astype(np.float64)
        peer = LinearSVC(loss="hinge", C=1 / (lam * sign.size), fit_intercept=False, tol=1e-3, max_iter=20000, random_state=0)
        theirs = peer.fit(X_train, sign).coef_.ravel()
        if y[test_rows].any():
            measures = (average_precision_score(y[test_rows], X_test @ each) for each in (w, theirs))
            objectives = (hinge_objective(X_train, sign, each, lam) for each in (w, theirs))
            found.append((*measures, *objectives, model.labels["f_min"][k]))
    return np.array(found).T


@pytest.mark.more("methods")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("corpus", sorted(CORPORA))
def test_probe_on_the_papers_corpora(data_dir, tmp_path, corpus):
    labels, low, high = CORPORA[corpus]
    data = converted("jsonl", data_dir / f"{corpus}.jsonl.xz", tmp_path / "data.h5").output
    report = train("probe", None, data, tmp_path / "run", {"label": labels, "bias": False})
    assert low <= report.mean_steps <= high
    precision, their_precision, f, their_f, reported = beside_liblinear(data, Model(report.model))
    assert abs(precision.mean() - their_precision.mean()) < 0.005
    assert f.mean() < 1.05 * their_f.mean()
    assert (abs(f - reported) / f).max() < 1e-6


PAPER = 0.9069  # area under the ROC curve of PSBML with naive Bayes on Adult


@pytest.fixture
def adult(data_dir, tmp_path):
    for name, like in (("a9a", None), ("a9a.t", tmp_path / "a9a.h5")):
        converted("svmlight", data_dir / f"{name}.svm.xz", tmp_path / f"{name}.h5", like=like)
    return tmp_path / "a9a.h5", tmp_path / "a9a.t.h5"


def rows_and_classes(path):
    with DataFile(path) as data:
        return read_rows(data, np.arange(data.n_rows), False), np.diff(data.map("Y/indptr"))


@pytest.mark.more("methods")
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
