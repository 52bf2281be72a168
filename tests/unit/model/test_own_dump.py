"""Classifiers of ours are saved and read without skops as skops does it."""

import io
import json
import sys
import zipfile

import numpy as np
import pytest
import skops.io

from hpcml.model.classifier import canonical, dump_classifier, load_classifier
from hpcml.model.gaussian_bayes import GaussianNB
from hpcml.model.kernel_bayes import KernelNB
from hpcml.model.learner import plain_class

ESTIMATORS = {"kernel": KernelNB, "gaussian": GaussianNB}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_twin_is_filed_and_read_as_the_estimator(name, n_classes):
    rng = np.random.default_rng(n_classes)
    y = np.arange(90) % n_classes
    X = np.column_stack([rng.normal(size=90) + y, np.round(rng.normal(size=90))]).astype(np.float32)
    estimator = ESTIMATORS[name]().fit(X, y)
    twin = plain_class(f"{estimator.__module__}.{type(estimator).__name__}")().fit(X, y)
    assert np.array_equal(twin.predict_proba(X), estimator.predict_proba(X))
    dump = dump_classifier(twin)
    assert dump == canonical(skops.io.dumps(estimator))
    again = load_classifier(dump, 2)
    assert type(again) is type(twin)
    assert np.array_equal(again.predict_joint_log_proba(X), estimator.predict_joint_log_proba(X))


def fitted_twin():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 2)).astype(np.float32), np.arange(60) % 2
    return plain_class("hpcml.model.kernel_bayes.KernelNB")().fit(X, y), X


def test_our_classifiers_are_written_and_read_where_skops_is_not_installed(monkeypatch):
    twin, X = fitted_twin()
    for name in ("skops", "skops.io"):
        monkeypatch.setitem(sys.modules, name, None)
    again = load_classifier(dump_classifier(twin), 2)
    assert np.array_equal(again.predict_joint_log_proba(X), twin.predict_joint_log_proba(X))


def with_description(dump, change):
    """A dump whose description is changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(dump)) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, json.dumps(change(json.loads(content))) if name == "schema.json" else content)
    return out.getvalue()


def test_files_do_not_hold_the_version_of_skops_but_those_that_do_are_read(monkeypatch):
    twin, X = fitted_twin()
    dump = dump_classifier(twin)
    monkeypatch.setattr(skops, "__version__", "0.99")
    assert b"0.99" not in dump and canonical(skops.io.dumps(KernelNB().fit(X, np.arange(60) % 2))) == dump
    earlier = with_description(dump, lambda root: root | {"_skops_version": "0.10.0"})
    assert earlier != dump
    for read in (load_classifier(earlier, 2), load_classifier(canonical(earlier), 2)):
        assert np.array_equal(read.predict_joint_log_proba(X), twin.predict_joint_log_proba(X))
