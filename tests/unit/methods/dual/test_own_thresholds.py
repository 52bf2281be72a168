"""Thresholds that `dual` finds by leave-one-out scores."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from support import oracles_decide as oracles
from support.make import dataset
from support.training import merge, train

import hpcml
from hpcml.leave_one_out.decide import KAPPA, PRIOR
from hpcml.log import Log
from hpcml.model.linear import Model

QUIET = Log(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with rows of 40 labels, of which most are rare, and their models."""
    folder, rng, (n, d, n_labels) = tmp_path_factory.mktemp("own"), np.random.default_rng(5), (1200, 300, 40)
    Y = rng.random((n, n_labels)) < np.geomspace(0.006, 0.15, n_labels)
    topics = rng.random((n_labels, d)) < 0.03
    X = ((Y.astype(float) @ topics) * rng.random((n, d)) > 0.5) | (rng.random((n, d)) < 0.03)
    X = X / np.maximum(1, np.sqrt(X.sum(axis=1, keepdims=True)))
    for name, part in (("train", slice(0, 600)), ("test", slice(600, None))):
        dataset(folder / f"{name}.h5", sp.csr_matrix(X[part]), Y[part])
    train("dual", None, folder / "train.h5", folder / "run", log=QUIET)
    return folder


def test_are_those_of_the_plain_twin(folder):
    model = Model(folder / "run" / "model.h5")
    n, dense = model.n_labels, np.zeros((2, model.n_labels, 242))
    for label in range(n):
        cells, *numbers = model.scores.row(label)
        dense[:, label, cells] = numbers
    n_positive, names = model.labels["n_positive"], model.label_names
    assert dense[0].sum(axis=1).tolist() == [600] * n and (dense[1].sum(axis=1) == n_positive).all()
    rows, positives = map(oracles.merge_lowest, dense)
    order = sorted(range(n), key=lambda label: (n_positive[label], names[label]))
    group, sums = oracles.pool(order, n_positive, rows, positives)
    for label in range(n):
        of_rows, of_positives = sums[:, group[label]]
        x = oracles.curve(of_rows, of_positives)
        prior = oracles.prior_precision(x, of_rows, of_positives, KAPPA)
        own = rows[label] * (n_positive[label] > 1), positives[label] * (n_positive[label] > 1)
        slope, offset = oracles.fit(x, *own, prior).x
        p = 1 / (1 + np.exp(-slope * x - offset))
        together = rows[label] + PRIOR / max(1, of_positives.sum()) * of_rows
        values = [oracles.expected_f1(p[20:], together[20:], cell - 20) for cell in range(21, 242)]
        chosen = int(np.searchsorted(oracles.EDGES, np.nextafter(model.thresholds[label], np.inf), "right"))
        assert values[chosen - 21] == pytest.approx(max(values), rel=1e-4)


def test_raise_macro_f1_on_other_rows(folder):
    own = hpcml.evaluate(folder / "run", folder / "test.h5", split="all").macro("f1")
    at_zero = hpcml.evaluate(folder / "run", folder / "test.h5", split="all", threshold=0.0).macro("f1")
    assert own > 1.1 * at_zero


def test_merged_parts_have_those_of_one_run(folder, tmp_path):
    parts = [tmp_path / f"part{k}" for k in (1, 2)]
    for k, part in enumerate(parts, 1):
        train("dual", None, folder / "train.h5", part, {"label_part": f"{k}/2"}, log=QUIET)
    found = np.concatenate([Model(part / "model.h5").thresholds for part in parts])
    merge(None, parts, tmp_path / "merged", log=QUIET)
    assert (tmp_path / "merged" / "model.h5").read_bytes() == (folder / "run" / "model.h5").read_bytes()
    assert (found != Model(folder / "run" / "model.h5").thresholds).any()


def test_are_replaced_without_force_and_absent_without_scores(folder, tmp_path):
    run = tmp_path / "run"
    assert "thresholds of the labels are from leave-one-out scores" in str(train("dual", None, folder / "train.h5", run, log=QUIET))
    before = Model(run / "model.h5")
    assert before.threshold_source == f"from leave-one-out scores of split {before.attrs['split']} (measure label)"
    hpcml.threshold(run, folder / "test.h5", split="all", measure="micro")
    after = Model(run / "model.h5")
    assert after.attrs["threshold_method"] != "leave-one-out" and (after.thresholds != before.thresholds).any()
    without = Model(train("dual", None, folder / "train.h5", tmp_path / "without", {"no_scores": True}, log=QUIET).model)
    with h5py.File(without.path) as file:
        assert "labels/threshold" not in file and "threshold_method" not in file.attrs
    assert without.threshold_source == "" and not without.thresholds.any()
