"""The corrected t-test is the paired one if no rows are shared, and more careful otherwise."""

import math

import numpy as np
import pytest
from scipy.stats import t, ttest_rel

from hpcml.crossval.table import corrected_test

A, B = np.random.default_rng(3).normal(size=(2, 12))


def test_without_shared_rows_it_is_the_paired_test():
    assert corrected_test(A - B, 0.0) == pytest.approx(ttest_rel(A, B).pvalue, rel=1e-12)


@pytest.mark.parametrize("folds", [2, 10])
def test_shared_rows_widen_the_variance(folds):
    share = 1 / (folds - 1)
    statistic = ttest_rel(A, B).statistic / math.sqrt(1 + A.size * share)
    assert corrected_test(A - B, share) == pytest.approx(2 * t.sf(abs(statistic), A.size - 1), rel=1e-12)


def test_differences_without_variance():
    assert math.isnan(corrected_test(np.zeros(5), 0.1))
    assert math.isnan(corrected_test(np.array([1.0, np.nan]), 0.1))
    assert corrected_test(np.ones(4), 0.1) == 0.0
