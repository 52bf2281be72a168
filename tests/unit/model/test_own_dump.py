"""Classifiers of ours are saved and read without skops as skops does it."""

from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest
import skops.io

from hpcml.model import own_dump
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


def test_our_classifiers_are_written_and_read_where_skops_is_not_installed(monkeypatch):
    def not_installed(name):
        raise PackageNotFoundError(name)

    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 2)).astype(np.float32), np.arange(60) % 2
    twin = plain_class("hpcml.model.kernel_bayes.KernelNB")().fit(X, y)
    monkeypatch.setattr(own_dump, "version", not_installed)
    again = load_classifier(dump_classifier(twin), 2)
    assert np.array_equal(again.predict_joint_log_proba(X), twin.predict_joint_log_proba(X))
