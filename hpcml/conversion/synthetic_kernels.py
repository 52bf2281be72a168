"""Compiled generation of synthetic rows; each row has its own stream of random numbers."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import erfc, exp, log
from hpcml.kernels.row_keys import GOLDEN, mix

MAX_WORDS = 2048  # background words of a row; the probability of more is below 1e-20
MAX_MENTIONS = 128
MAX_COUNT = 64  # occurrences of a word in a row


@njit
def _uniform(state):
    """Return the next number in [0, 1) of SplitMix64 (Steele, Lea & Flood 2014); state[0] is uint64."""
    state[0] += GOLDEN
    return np.float64(mix(state[0]) >> np.uint64(11)) * 2.0**-53


@njit
def _zipf(u, law):
    """Return the rank at quantile u of Zipf–Mandelbrot's law (`zipf_law`)."""
    shift, power, start, span, size = law
    x = exp(log(start + u * span) / power) - shift
    return min(np.int64(x), size - 1)


@njit
def _label(u, law, n_labels):
    """Return the label rank at quantile u: Zipf–Mandelbrot for the first `head` labels, uniform for the others."""
    head_law, head_share = law
    head = head_law[-1]
    if u < head_share:
        return _zipf(u / head_share, head_law)
    return head + min(np.int64((u - head_share) / (1.0 - head_share) * (n_labels - head)), n_labels - head - 1)


@njit
def _geometric(state, log_share):
    """Return a geometric number from 0 on; `log_share` is the logarithm of the probability of continuing."""
    return np.int64(log(1.0 - _uniform(state)) / log_share)


@njit
def _poisson(state, threshold):
    """Return a Poisson number of mean -log(threshold) (Knuth)."""
    n, product = 0, _uniform(state)
    while product > threshold and n < MAX_MENTIONS:
        n, product = n + 1, product * _uniform(state)
    return n


@njit
def _background(state, law, ranks):
    log_share, zipf_law = law
    n = min(_geometric(state, log_share) + _geometric(state, log_share), MAX_WORDS)
    for k in range(n):
        ranks[k] = _zipf(_uniform(state), zipf_law)
    return n


@njit
def _mentions(state, law, brings, ranks, n, labels):
    """Draw the labels of a row, and words after the first n; return the numbers of words and labels."""
    silent, feigned, chances, words = brings
    threshold, true_share, of_label = law
    n_labels = 0
    for _ in range(_poisson(state, threshold)):
        label = _label(_uniform(state), of_label, silent.size)
        if _uniform(state) < true_share:
            labels[n_labels] = label
            n_labels += 1
            heard = _uniform(state) >= silent[label]
        else:
            heard = _uniform(state) < feigned[label]
        if heard:
            for k in range(words.shape[1]):
                if _uniform(state) < chances[label, k]:
                    ranks[n] = words[label, k]
                    n += 1
    return n, n_labels


@njit
def _to_columns(values, n, order, counts):
    """Convert n ranks to distinct ascending columns and `counts`; return their number."""
    factor, offset, size = order
    for k in range(n):
        values[k] = (values[k] * factor + offset) % size
    values[:n].sort()
    end = 0
    for k in range(n):
        if end and values[end - 1] == values[k]:
            counts[end - 1] += 1
        else:
            values[end], counts[end] = values[k], 1
            end += 1
    return end


@njit
def make_rows(states, laws, brings, idf, orders, scratch, out):
    """Generate rows from their states (uint64) while they fit; return the numbers of rows, values and labels.

    laws: of words, of labels, and the probability that a word occurs once more. brings: silent, feigned (labels), chances and words
    (labels × words). idf (features) is by column. orders, of features and labels, (a, b, size): rank r is column (a r + b) mod
    size. scratch: columns, counts and labels. out: lengths, indices, data (CSR), label_lengths and label_indices.
    """
    word_law, label_law, again = laws
    columns, counts, labels = scratch
    lengths, indices, data, label_lengths, label_indices = out
    n_values, n_entries, row = 0, 0, 0
    room, label_counts = columns.size, counts[: labels.size].copy()
    weights = np.empty(max(columns.size, MAX_COUNT) + 1)  # by number of occurrences
    for k in range(weights.size):
        weights[k] = log(k + 1.0)
    while row < states.size and n_values + room <= indices.size and n_entries + labels.size <= label_indices.size:
        state = states[row : row + 1]
        n = _background(state, word_law, columns)
        n, n_labels = _mentions(state, label_law, brings, columns, n, labels)
        n = _to_columns(columns, n, orders[0], counts)
        squares = 0.0
        for k in range(n):
            while counts[k] < MAX_COUNT and _uniform(state) < again:
                counts[k] += 1
            value = weights[counts[k]] * idf[columns[k]]
            squares += value * value
            indices[n_values + k], data[n_values + k] = columns[k], value
        norm = np.sqrt(squares)
        for k in range(n_values, n_values + n):
            data[k] /= norm
        n_labels = _to_columns(labels, n_labels, orders[1], label_counts)
        label_indices[n_entries : n_entries + n_labels] = labels[:n_labels]
        lengths[row], label_lengths[row] = n, n_labels
        n_values, n_entries, row = n_values + n, n_entries + n_labels, row + 1
    return row, n_values, n_entries


@njit
def _quantile(share):
    """Return z < 0 with Φ(z) = share ≤ ½.

    A rational approximation (Abramowitz & Stegun 1964, 26.2.23), then two steps of Halley's method, each of which cubes its error
    of 4.5e-4.
    """
    t = np.sqrt(-2.0 * log(share))
    z = (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
    for _ in range(2):
        off = (0.5 * erfc(-z * np.sqrt(0.5)) - share) * np.sqrt(2.0 * np.pi) * exp(0.5 * z * z)
        z -= off / (1.0 + 0.5 * z * off)
    return z


@njit
def _normal(shares, out):
    for i in range(shares.size):
        out[i] = _quantile(shares[i]) if shares[i] <= 0.5 else -_quantile(1.0 - shares[i])


def normal(shares: np.ndarray) -> np.ndarray:
    """Return the quantiles (n) of the standard normal distribution at these shares, 0 < share < 1."""
    out = np.empty(shares.size)
    _normal(shares, out)
    return out
