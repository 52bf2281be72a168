"""The best labels of rows: the k largest values; ties go to smaller label numbers.

The value of a score is slope · score + offset with the label's numbers, or the score itself where `slope` is empty. A row's best
labels are a heap with the worst one first; free entries hold −∞ of the label NONE.
"""

from hpcml.kernels import njit

NONE = 2**31 - 1
GROUP = 62  # scores that are compared by vector instructions before any is inserted


@njit
def value_of(score, label, slope, offset):
    """Return the value by which a score is compared."""
    if slope.size == 0 or label == NONE:
        return score
    return slope[label] * score + offset[label] if slope[label] > 0.0 else offset[label]


@njit
def _is_worse(score, label, than_score, than_label, slope, offset):
    value, than_value = value_of(score, label, slope, offset), value_of(than_score, than_label, slope, offset)
    return value < than_value or (value == than_value and label > than_label)


@njit
def _sink(scores, labels, score, label, size, slope, offset):
    """Replace the first entry of a heap of `size` entries."""
    position = 0
    while 2 * position + 1 < size:
        child = 2 * position + 1
        if child + 1 < size and _is_worse(scores[child + 1], labels[child + 1], scores[child], labels[child], slope, offset):
            child += 1
        if not _is_worse(scores[child], labels[child], score, label, slope, offset):
            break
        scores[position], labels[position] = scores[child], labels[child]
        position = child
    scores[position], labels[position] = score, label


@njit
def keep_one(score, label, slope, offset, best_scores, best_labels):
    """Insert the score of a label (not NaN) into a heap."""
    if _is_worse(best_scores[0], best_labels[0], score, label, slope, offset):
        _sink(best_scores, best_labels, score, label, best_scores.size, slope, offset)


@njit
def keep_best(scores, first, slope, offset, best_scores, best_labels):
    """Insert scores (n, B) of labels first … first + B − 1 into the rows' heaps (n, k), skipping NaN."""
    for i in range(scores.shape[0]):
        own_scores, own_labels = best_scores[i], best_labels[i]
        worst = value_of(own_scores[0], own_labels[0], slope, offset)
        for begin in range(0, scores.shape[1], GROUP):
            group, n_above = scores[i, begin : begin + GROUP], slope.size  # 0: values are scores
            for lane in range(group.size):
                n_above += group[lane] >= worst
            for lane in range(group.size if n_above else 0):
                if value_of(group[lane], first + begin + lane, slope, offset) >= worst:
                    keep_one(group[lane], first + begin + lane, slope, offset, own_scores, own_labels)
                    worst = value_of(own_scores[0], own_labels[0], slope, offset)


@njit
def sort_best(slope, offset, best_scores, best_labels):
    """Sort the rows' heaps (n, k), best first."""
    for i in range(best_scores.shape[0]):
        scores, labels = best_scores[i], best_labels[i]
        for last in range(scores.size - 1, 0, -1):
            score, label = scores[last], labels[last]
            scores[last], labels[last] = scores[0], labels[0]
            _sink(scores, labels, score, label, last, slope, offset)
