"""Features that alone tell sampled rows of a label from others."""

import numpy as np

from hpcml.kernels import njit


@njit
def extreme_features(csr, positives, sample, frequent, labels, found, areas):
    """found[m], areas[m] (k each): the features of the most extreme AUC for labels[m] in the samples, and the AUC; −1: none.

    csr: X. positives: (indptr, rows of X), by label, of sampled rows that have it (or of rows that lack it: this changes a to
    1 − a). sample: (indptr, places, values) by feature of other sampled rows; (indptr, places) by label of those that are like the
    positives; their number. frequent: the features, those of most sample rows first. An AUC between 0.02 and 0.98 is left out.
    """
    (indptr, indices, data), (label_indptr, label_rows) = csr, positives
    (begins, places, values), (own_begins, own_places), n_sample = sample[0], sample[1], sample[2]
    n_features = begins.size - 1
    present, sums = np.zeros(n_features, np.int64), np.zeros(n_features)
    touched, is_own = np.zeros(n_features, np.int64), np.zeros(n_sample, np.bool_)
    found[:], areas[:] = -1, 0.5
    for m in range(labels.size):
        label = labels[m]
        rows = label_rows[label_indptr[label] : label_indptr[label + 1]]
        own = own_places[own_begins[label] : own_begins[label + 1]]
        n_negative = n_sample - own.size
        if n_negative == 0 or rows.size == 0:
            continue
        is_own[own] = True
        n_touched = 0
        for j in frequent:  # those of nearly all negatives, which positives may lack
            if begins[j + 1] - begins[j] < 0.9 * n_negative:
                break
            touched[n_touched], present[j] = j, n_sample  # above 0, so that it is not touched again
            n_touched += 1
        n_usual = n_touched
        for i in rows:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.uint64(indices[k])
                if data[k] != 0.0:
                    if present[j] == 0:
                        touched[n_touched] = j
                        n_touched += 1
                    present[j] += 1
        for t in range(n_usual):
            present[touched[t]] -= n_sample
        for t in range(n_usual, n_touched):  # AUC ≤ 1 − p q / 2, if shares p of the positives and q of the others have the value 0
            if present[touched[t]] < 0.875 * rows.size:
                present[touched[t]] = -1
        for i in rows:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.int64(indices[k])
                if data[k] != 0.0 and present[j] >= 0:
                    column = slice(begins[j], begins[j + 1])
                    sums[j] += _rank(np.float64(data[k]), places[column], values[column], is_own, n_negative)
        for t in range(n_touched):
            j = touched[t]
            if present[j] >= 0:
                column = slice(begins[j], begins[j + 1])
                absent = rows.size - present[j]
                area = sums[j] + (absent * _rank(0.0, places[column], values[column], is_own, n_negative) if absent else 0.0)
                _keep(j, area / (rows.size * n_negative), found[m], areas[m])
            present[j], sums[j] = 0, 0.0
        is_own[own] = False


@njit
def _rank(x, places, values, is_own, n_negative):
    """Return how many sample rows without the label have less than x, an equal value counting half."""
    below, n_zeros = 0.0, n_negative
    for k in range(places.size):
        if not is_own[places[k]]:
            n_zeros -= 1
            below += 1.0 if values[k] < x else 0.5 if values[k] == x else 0.0
    return below + (n_zeros if x > 0.0 else 0.5 * n_zeros if x == 0.0 else 0.0)


@njit
def _keep(j, area, found, areas):
    """Put feature j in place of the least extreme one of a label, if it is more extreme; the smaller number of equal ones."""
    if 0.02 < area < 0.98:
        return
    worst = 0
    for k in range(found.size):
        if found[k] < 0:
            worst = k
            break
        if (abs(areas[k] - 0.5), -found[k]) < (abs(areas[worst] - 0.5), -found[worst]):
            worst = k
    if found[worst] < 0 or (abs(areas[worst] - 0.5), -found[worst]) < (abs(area - 0.5), -j):
        found[worst], areas[worst] = j, area
