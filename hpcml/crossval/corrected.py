"""The corrected resampled t-test (Nadeau & Bengio 2003), for runs that share training rows."""

from __future__ import annotations

import math

import numpy as np


def corrected_test(differences: np.ndarray, test_share: float) -> float:
    """Return the two-sided p of the differences (n,) of two methods in n ≥ 2 folds or repeats.

    `test_share` is the number of test rows divided by that of training rows: 1/(K − 1) for K folds.
    The statistic is mean / √((1/n + test_share) · variance), with n − 1 degrees of freedom. NaN if
    all differences are 0 or one is NaN.
    """
    from scipy.stats import t

    if not np.any(differences) or np.isnan(differences).any():
        return math.nan
    deviation = float(differences.std(ddof=1)) * math.sqrt(1 / differences.size + test_share)
    return 0.0 if deviation == 0 else float(2 * t.sf(abs(float(differences.mean())) / deviation, differences.size - 1))
