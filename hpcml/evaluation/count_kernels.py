"""Kernels of `hpcml.evaluation.counts`: numbers of scores between, and at, ascending values.

Problem: for each of 10⁸ scores the first of up to 10⁶ values that is not smaller. Few values are compared with every score. More
have a guide: linear buckets from the smallest value to the largest, each divided into cells in proportion to the values in it, so
that a cell has at most a few values wherever they lie. All operations are monotone in the score, so rounding puts no score
into a cell after that of a larger one, and the comparisons in the cell make the result exact.

Not used: one level of equal buckets, of which 7 values share one where most scores of rare labels lie.
"""

import numpy as np

from hpcml.kernels import njit

DIRECT = 8  # most values of a lane that are compared with every score
PER_BUCKET = 16  # values
CELLS = 4  # per value
# Scores of a single lane with more values than MANY are sorted by bucket, SORTED at a time, so that the values of a bucket stay in
# the cache. With 246,000 values, counting takes 0.8 instead of 1.2 of the time of the scores (66,000 values: 0.6 instead of 0.7).
MANY, SORTED = 1 << 15, 1 << 17
ROWS = 256  # rows of a block of scores that are counted at a time, so that a column stays in the cache


@njit
def _place(score, low, scale):
    """Return the bucket of a score and its position there, 0 to 1."""
    place = (score - low) * scale
    bucket = np.int64(place)
    return bucket, place - bucket


@njit
def _measure(values):
    """Return (smallest value, buckets per unit) of ascending values."""
    n_buckets, width = (values.size - 1) // PER_BUCKET + 1, values[values.size - 1] - values[0]
    scale = n_buckets / width if width > 0.0 and np.isfinite(width) else 0.0
    return values[0], scale if np.isfinite(scale) else 0.0


def guide_sizes(sizes):
    """Return the sizes of the tables `cells` and `starts` of lanes with these numbers of values."""
    n_buckets, has_guide = (sizes - 1) // PER_BUCKET + 1, sizes > DIRECT
    return np.where(has_guide, n_buckets + 2, 0), np.where(has_guide, CELLS * sizes + n_buckets + 2, 0)


@njit
def make_guides(begins, guides, values, cells, starts):
    for lane in range(begins.size - 1):
        own = values[begins[lane] : begins[lane + 1]]
        if own.size > DIRECT:
            _make_guide(own, cells[guides[lane, 0] : guides[lane + 1, 0]], starts[guides[lane, 1] : guides[lane + 1, 1]])


@njit
def _make_guide(values, cells, starts):
    """Fill `cells` (n_buckets + 2), the first cell of each bucket, and `starts`, the number of values before each cell."""
    low, scale = _measure(values)
    cells[:] = 0
    for i in range(values.size):
        cells[_place(values[i], low, scale)[0] + 1] += CELLS
    for bucket in range(1, cells.size):
        cells[bucket] += cells[bucket - 1] + 1
    cell = 0
    for i in range(values.size):
        bucket, position = _place(values[i], low, scale)
        own = cells[bucket] + np.int64(position * (cells[bucket + 1] - cells[bucket]))
        while cell <= own:
            starts[cell] = i
            cell += 1
    starts[cell:] = values.size - 1


@njit
def _count_with_guide(scores, values, cells, starts, above, equal):
    (low, scale), last = _measure(values), np.uint64(values.size - 1)
    for i in range(scores.size):
        score = scores[i]
        if score < low:
            above[0] += 1
            continue
        if score > values[last]:
            above[last + np.uint64(1)] += 1
            continue
        bucket, position = _place(score, low, scale)
        first = cells[np.uint64(bucket)]
        cell = first + np.int64(position * (cells[np.uint64(bucket + 1)] - first))
        at = np.uint64(starts[np.uint64(cell)])
        at += np.uint64(values[at] < score)
        if values[at] <= score:  # rare, so that most scores take one prediction of a branch
            while values[at] < score:
                at += np.uint64(1)
            equal[at] += values[at] == score
        above[at] += 1


@njit
def _sort_by_bucket(scores, values, ends, out):
    """Copy scores (n) to `out` ordered by bucket, those outside the values first; `ends` (n_buckets + 2) is overwritten."""
    (low, scale), high = _measure(values), values[values.size - 1]
    ends[:] = 0
    for i in range(scores.size):
        ends[np.uint64(_place(scores[i], low, scale)[0] + 1 if low <= scores[i] <= high else 0)] += 1
    total = 0
    for bucket in range(ends.size):
        total, ends[bucket] = total + ends[bucket], total
    for i in range(scores.size):
        bucket = np.uint64(_place(scores[i], low, scale)[0] + 1 if low <= scores[i] <= high else 0)
        out[np.uint64(ends[bucket])] = scores[i]
        ends[bucket] += 1


@njit
def _count_directly(scores, values, above, equal):
    for i in range(values.size):
        value, n_above, n_equal = values[i], 0, 0
        for k in range(scores.size):
            n_above += scores[k] > value
            n_equal += scores[k] == value
        above[i + 1] += n_above
        above[i] -= n_above
        equal[i] += n_equal
    above[0] += scores.size


@njit
def count_scores(scores, lanes, thresholds, counters, above, equal, n_predicted):
    """Count scores (n, B) of lanes (B): above a lane's threshold, and between and at its values.

    `counters` is (begins, values, guides, cells, starts). Lane l has the values i = begins[l] ... begins[l + 1] − 1. Adds to
    above[i + l] the scores above value i − 1, if any, and at most value i, to above[begins[l + 1] + l] those above all, to
    equal[i] those equal to value i.
    """
    begins, values, guides, cells, starts = counters
    is_sorted = lanes.size == 1 and values.size > MANY
    n_rows = SORTED if is_sorted else ROWS
    ordered, ends = np.empty(SORTED if is_sorted else 0), np.empty(cells.size if is_sorted else 0, np.int64)
    for first in range(0, scores.shape[0], n_rows):
        for column in range(lanes.size):
            lane, own = lanes[column], scores[first : first + n_rows, column]
            n_above = 0
            for i in range(own.size):
                n_above += own[i] > thresholds[lane]
            n_predicted[lane] += n_above
            a, b = begins[lane], begins[lane + 1]
            if b - a > DIRECT:
                guide = cells[guides[lane, 0] : guides[lane + 1, 0]], starts[guides[lane, 1] : guides[lane + 1, 1]]
                if is_sorted:
                    _sort_by_bucket(own, values[a:b], ends, ordered)
                    own = ordered[: own.size]
                _count_with_guide(own, values[a:b], *guide, above[a + lane : b + lane + 1], equal[a:b])
            elif b > a:
                _count_directly(own, values[a:b], above[a + lane : b + lane + 1], equal[a:b])
