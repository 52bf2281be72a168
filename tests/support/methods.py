"""Parametrisation over all methods of the registry, with options for small data."""

import csv

import numpy as np
import pytest

from hpcml.errors import Interrupted
from hpcml.methods.registry import METHODS
from support.make import classifier_bytes, dataset, random_data
from support.training import train

# Options beside the defaults that take another way through a method.
WAYS = {
    "dual": ({"loss": "hinge", "positive_weight": "balanced", "bias": True}, {"loss": "logistic", "drop": 0.01}),
    "probe": ({"loss": "huber", "dormant": False, "precision": "double"}, {"loss": "logistic", "bias": True}),
    "elastic-net": ({"solver": "fobos", "passes": 3, "eta": 0.1}, {"solver": "sgd", "passes": 2, "eta": 0.2, "rate": "adagrad"}),
    "mbw": ({"voted": True, "live_features": 12}, {"shuffle": True, "seed": 4}),
    "pa": ({"voted": True, "bias": False},),
    "psbml": ({"base": ("tree",), "grid": "2x1", "cycles": 5, "judge": "auc", "validation_share": 0.3},),
}
FEW = {"pegasos": {"max_steps": 40}, "probe": {"max_steps": 60}}  # steps; each may be stopped
DIFFER = {"seconds", "cpu_seconds", "bytes_sent"}  # columns of history.csv that time and ranks change

EVERY = sorted(METHODS)
assert {*WAYS, *FEW} <= set(EVERY)
ESTIMATORS = [name for name in EVERY if METHODS[name].estimator]
SHORT = {"psbml": {"base": "tree max_depth=4", "grid": "2x1", "cycles": 3}}  # parameters of estimators, beside the defaults
LINEAR = [name for name in EVERY if METHODS[name].linear]
every = pytest.mark.parametrize("method", EVERY)
every_way = pytest.mark.parametrize(
    ("method", "way"), [(name, way) for name in EVERY for way in range(1 + len(WAYS.get(name, ())))]
)


def able(what, yes=True):
    return pytest.mark.parametrize("method", [name for name in EVERY if (what in METHODS[name].supports) == yes])


def having(option, yes=True):
    found = [name for name in EVERY if (option in METHODS[name].option_names) == yes]
    assert found, f"no method has the option {option}"
    return pytest.mark.parametrize("method", found)


def options_of(method, way=0, **more):
    label = {} if "label_sets" in METHODS[method].supports else {"label": "label3"}
    return label | FEW.get(method, {}) | ({}, *WAYS.get(method, ()))[way] | more


def small_data(path, n=90, **given):
    X, Y = random_data(7, n, 30, 6)
    X, Y = abs(X), Y.tolil()
    Y[:, 1], Y[:, 2], Y[:, 3] = 0, 1, X[:, :4].sum(axis=1) > 0.7
    return dataset(path, X, Y, splits={"train": np.arange(0, n, 2), "test": np.arange(1, n, 2)}, **given)


def history(run):
    if not (run / "history.csv").exists():
        return []
    with (run / "history.csv").open(newline="", encoding="utf-8") as lines:
        return [{name: value for name, value in line.items() if name not in DIFFER} for line in csv.DictReader(lines)]


def make(name, **more):
    method = METHODS[name]
    return method.load(method.estimator)(**{**method.parameters, **SHORT.get(name, {}), **more})


def learnt(classifier):
    if hasattr(classifier, "coef_"):
        coef = getattr(classifier, "part_coef_", classifier.coef_)
        return coef.tobytes() + classifier.intercept_.tobytes()
    return classifier_bytes(classifier.classifier_) + classifier.margin_rows_.tobytes() + bytes([classifier.cycle_])


class AtLook:
    def __init__(self, n):
        self.left = n

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @property
    def seen(self):
        self.left -= 1
        return self.left <= 0


def checkpoint_of(method, data, run, at_least=1):
    for number in range(at_least):
        with pytest.raises(Interrupted, match=r"time limit.*checkpoint written"):
            train(method, None, data, run, options_of(method), time_limit=1e-9, resume=number > 0)
    return max((run / "checkpoint").glob("state-*.h5"))
