"""Class probabilities given a row, from joint log probabilities (n, K)."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import exp, log


@njit
def _log_of_sum(row, skipped):
    """log Σ exp(row[c]) over all classes except `skipped`; −∞ without classes."""
    largest = -np.inf
    for c in range(row.size):
        if c != skipped:
            largest = max(largest, row[c])
    if not largest > -np.inf:
        return largest
    total = 0.0
    for c in range(row.size):
        if c != skipped:
            total += exp(row[c] - largest)
    return largest + log(total)


@njit
def log_shares(joint, out):
    """out[i, c] = log p(c | row i)."""
    for i in range(joint.shape[0]):
        whole = _log_of_sum(joint[i], -1)
        for c in range(joint.shape[1]):
            out[i, c] = joint[i, c] - whole


@njit
def shares(joint, out):
    """out[i, c] = p(c | row i)."""
    log_shares(joint, out)
    for i in range(joint.shape[0]):
        for c in range(joint.shape[1]):
            out[i, c] = exp(out[i, c])


@njit
def log_odds(joint, out):
    """out[i, c] = log p(c | row i) − log(1 − p(c | row i)); ∞ for a single class."""
    for i in range(joint.shape[0]):
        for c in range(joint.shape[1]):
            out[i, c] = joint[i, c] - _log_of_sum(joint[i], c)


@njit
def gaps(joint, out):
    """out[i] = largest p(c | row i) minus the second largest; K ≥ 2."""
    for i in range(joint.shape[0]):
        first = second = -np.inf
        for c in range(joint.shape[1]):
            value = joint[i, c]
            if value > first:
                first, second = value, first
            elif value > second:
                second = value
        whole = _log_of_sum(joint[i], -1)
        out[i] = exp(first - whole) - exp(second - whole)
