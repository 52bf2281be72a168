"""Search for features that alone separate sampled rows of a label from other rows."""

import numpy as np

from hpcml.kernels import njit


@njit
def extreme_features(csr, positives, sample, frequent, labels, features, areas):
    """Write the features of the most extreme AUC of labels[m] in the samples to features[m] (k; −1: none) and the AUC to areas[m].

    csr: X. positives: (indptr, rows of X) by label of sampled rows with it (or without it: AUC 1 − a). sample: (indptr, rows,
    values) by feature of other sampled rows; (indptr, rows) by label; their number. frequent: features by descending count.
    """
    (indptr, indices, data), (label_indptr, label_rows) = csr, positives
    (begins, sample_rows, values), (own_begins, load_rank_rows), n_sample = sample[0], sample[1], sample[2]
    n_features = begins.size - 1
    present, sums = np.zeros(n_features, np.int64), np.zeros(n_features)
    touched, is_own = np.zeros(n_features, np.int64), np.zeros(n_sample, np.bool_)
    features[:], areas[:] = -1, 0.5
    for m in range(labels.size):
        label = labels[m]
        rows = label_rows[label_indptr[label] : label_indptr[label + 1]]
        own = load_rank_rows[own_begins[label] : own_begins[label + 1]]
        n_negative = n_sample - own.size
        if n_negative == 0 or rows.size == 0:
            continue
        is_own[own] = True
        n_touched = 0
        for j in frequent:  # features of nearly all negatives, which positives may lack
            if begins[j + 1] - begins[j] < 0.9 * n_negative:
                break
            touched[n_touched], present[j] = j, n_sample  # above 0: already touched
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
        for t in range(n_usual, n_touched):  # AUC ≤ 1 − p q / 2 if shares p of the positives and q of the others have value 0
            if present[touched[t]] < 0.875 * rows.size:
                present[touched[t]] = -1
        for i in rows:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.int64(indices[k])
                if data[k] != 0.0 and present[j] >= 0:
                    column = slice(begins[j], begins[j + 1])
                    sums[j] += _rank(np.float64(data[k]), sample_rows[column], values[column], is_own, n_negative)
        for t in range(n_touched):
            j = touched[t]
            if present[j] >= 0:
                column = slice(begins[j], begins[j + 1])
                absent = rows.size - present[j]
                area = sums[j] + (absent * _rank(0.0, sample_rows[column], values[column], is_own, n_negative) if absent else 0.0)
                _insert_extreme(j, area / (rows.size * n_negative), features[m], areas[m])
            present[j], sums[j] = 0, 0.0
        is_own[own] = False


@njit
def _rank(x, sample_rows, values, is_own, n_negative):
    """Return the number of sample rows without the label and with values below x; equal values count half."""
    below, n_zeros = 0.0, n_negative
    for k in range(sample_rows.size):
        if not is_own[sample_rows[k]]:
            n_zeros -= 1
            below += 1.0 if values[k] < x else 0.5 if values[k] == x else 0.0
    return below + (n_zeros if x > 0.0 else 0.5 * n_zeros if x == 0.0 else 0.0)


@njit
def _insert_extreme(j, area, features, areas):
    """Replace the least extreme feature of a label by feature j if j is more extreme; ties go to the smaller number."""
    if 0.02 < area < 0.98:
        return
    worst = 0
    for k in range(features.size):
        if features[k] < 0:
            worst = k
            break
        if (abs(areas[k] - 0.5), -features[k]) < (abs(areas[worst] - 0.5), -features[worst]):
            worst = k
    if features[worst] < 0 or (abs(areas[worst] - 0.5), -features[worst]) < (abs(area - 0.5), -j):
        features[worst], areas[worst] = j, area
