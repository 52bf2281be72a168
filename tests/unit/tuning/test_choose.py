"""The choice from scores, and the grid of settings."""

import numpy as np
import pytest

from hpcml.errors import ConfigError
from hpcml.methods.linear.settings import Axis
from hpcml.tuning.grid import Grid, choose
from hpcml.tuning.options import TuneOptions


def test_frequent_labels_choose_for_themselves_and_rare_ones_do_as_all_do():
    scores = np.array([[0.5, 0.7, 0.4]] * 8 + [[0.9, 0.6, 0.1]] * 2 + [[np.nan] * 3])
    n_positive = np.array([50] * 8 + [1, 5000, 0])
    which, best = choose(scores, n_positive, one=False)
    assert best == 1
    assert which.tolist() == [1] * 8 + [1, 0, 1]  # means .58, .68, .34; the rare one: .9 + 58 < .6 + 68
    assert set(choose(scores, n_positive, one=True)[0]) == {1}
    assert choose(scores, n_positive, one=False, tau=0.0)[0].tolist() == [1] * 8 + [0, 0, 1]


def test_the_default_stays_unless_another_setting_gains():
    scores, n_positive = np.array([[0.5025, 0.5, 0.4], [0.7, 0.5, 0.4]]), np.array([10**6, 10**6])
    assert choose(scores, n_positive, one=False, default=1)[0].tolist() == [1, 0]
    assert choose(scores, n_positive, one=False)[0].tolist() == [0, 0]
    assert choose(np.full((3, 4), 0.9), np.ones(3), one=True, default=2)[0].tolist() == [2] * 3


def test_grid_grows_only_where_the_best_lies_at_an_end_and_gains():
    axes = (Axis("lam", (0.1, 1.0, 10.0), 10.0), Axis("positive_weight", (1.0, 4.0), 4.0, least=1.0))

    def grid(fixed=False):
        return Grid(axes, [list(axis.values) for axis in axes], [fixed] * 2)

    settings = grid().settings()
    assert len(settings) == 6 and settings[1] == {"lam": 0.1, "positive_weight": 4.0}
    means = np.array([0.5, 0.4, 0.3, 0.3, 0.2, 0.2])  # best: λ × 0.1, weight 1
    new = grid().grow(settings, means)
    assert [each["lam"] for each in new] == [0.1 / 10.0] * 2  # and no weight below 1
    assert grid().grow(settings, np.array([0.3001, 0.2, 0.3, 0.3, 0.2, 0.2])) == []  # nothing to gain
    assert grid().grow(settings, np.array([0.2, 0.2, 0.5, 0.4, 0.2, 0.2])) == []  # it lies inside
    assert grid(fixed=True).grow(settings, means) == []  # the user's own values
    weights = grid().grow(settings, np.array([0.2, 0.2, 0.3, 0.5, 0.2, 0.2]))
    assert [each["positive_weight"] for each in weights] == [16.0] * 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "pegasos"}, "--method pegasos"),
        ({"by": "loss"}, "--by loss"),
        ({"folds": 2}, "--folds 2"),
        ({"lambdas": (1.0, 1.0)}, "--lambdas 1.0 1.0"),
        ({"weights": (0.0,)}, "--weights 0.0"),
        ({"method": "probe", "weights": (2.0,)}, "--weights 2.0: .* probe, only on dual"),
        ({"method": "elastic-net", "l1": "0"}, "--l1 0"),
        ({"l1": "1/m"}, "--l1 1/m: .* dual, only on elastic-net"),
        ({"method": "elastic-net", "bias": True}, "--bias"),
    ],
)
def test_rejects_invalid_options(options, text):
    with pytest.raises(ConfigError, match=text):
        TuneOptions(**options).validate()
