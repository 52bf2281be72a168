"""Each loss's minimum, as PROBE finds it, against an independent solver's, on real documents (docstrings without HPCML_DATA)."""

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from support import oracles
from support.converted import converted
from support.oracles import objective
from support.training import train

from hpcml.losses import FIRST_ORDER
from hpcml.model.linear import Model

N_LABELS = 3


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """(data file, X, Y of the training rows, names of the most frequent labels)."""
    path, folder = tmp_path_factory.mktemp("corpus") / "data.h5", os.environ.get("HPCML_DATA")
    if folder:
        converted("jsonl", Path(folder) / "reuters21578.jsonl.xz", path)
    else:
        converted("docstrings", [], path, min_df=2, test_share=0.7)
    with h5py.File(path) as file:
        X, Y = (
            sp.csr_matrix((file[n]["data"][:].astype(float), file[n]["indices"][:], file[n]["indptr"][:]), file[n].attrs["shape"])
            for n in "XY"
        )
        train, names = file["splits/train"][:], list(file["label_names"].asstr()[:])
    order = np.argsort(-np.asarray(Y[train].sum(axis=0)).ravel(), kind="stable")[1 : 1 + N_LABELS]
    return path, X[train], Y[train][:, np.sort(order)].toarray() > 0, [names[k] for k in np.sort(order)]


def minimiser(loss, X, sign, lam):
    """The weights that an independent solver finds."""
    C = 1 / (lam * X.shape[0])
    if loss == "hinge":
        model = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-6, max_iter=100000, random_state=0)
        return model.fit(X, sign).coef_.ravel()
    if loss == "logistic":
        return LogisticRegression(C=C, fit_intercept=False, tol=1e-8, max_iter=1000).fit(X, sign).coef_.ravel()

    def f_and_g(w):
        z = sign * (X @ w)
        slope = np.where(z >= 1, 0.0, np.where(z >= -1, -2 * (1 - z), -4.0))
        return objective(loss, X, sign, w, lam), lam * w + X.T @ (slope * sign) / X.shape[0]

    return scipy.optimize.minimize(f_and_g, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x


def test_the_independent_objectives_are_those_of_the_table():
    assert oracles.LOSSES.keys() == set(FIRST_ORDER)
    for loss in FIRST_ORDER:
        for z in (-3.0, -0.5, 0.3, 2.0):
            assert oracles.VALUES[loss](z) == pytest.approx(oracles.LOSSES[loss](z)[0])


@pytest.mark.more("methods")
@pytest.mark.parametrize("dormant", [True, False])
@pytest.mark.parametrize("loss", FIRST_ORDER)
def test_minimum_is_that_of_an_independent_solver(corpus, tmp_path, loss, dormant):
    path, X, Y, names = corpus
    report = train("probe", None, path, tmp_path / "run", {"loss": loss, "bias": False, "label": tuple(names), "dormant": dormant})
    model = Model(report.model)
    for row, name in enumerate(model.label_names):
        sign = np.where(Y[:, names.index(name)], 1.0, -1.0)
        ours = objective(loss, X, sign, model.weights(row), report.lam)
        least = objective(loss, X, sign, minimiser(loss, X, sign, report.lam), report.lam)
        assert model.labels["f_min"][row] == pytest.approx(ours, rel=1e-6)
        assert least * (1 - 1e-6) <= ours <= least * 1.03
