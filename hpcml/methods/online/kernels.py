"""One pass of mistake-driven learners over CSR rows, in row order, for a panel of B labels ("lanes") at once.

The rows of `weights` are the bias (row 0) and the features (row j + 1), so that a non-zero accesses neighbouring numbers only: B
weights w, or, for learners with positive and negative weights, B of u and B of v. Each lane computes what it would compute alone,
in the same order, so its bits do not depend on the labels that share the pass. `counters` (4, B) counts positive rows, false
positives, false negatives (of the prediction before the update) and updates.

The average over all hypotheses (voting), Σ w_i c_i / Σ c_i, is computed lazily: only values that a mistake changes are accessed.
The clock of a lane counts its correct predictions, Σ c_i. A Winnow has 2 B more numbers in each row: B sums, Σ (u_i − v_i) c_i (or
w_i) up to B stamps, the clocks at which the weights last changed. So no cancellation occurs, although weights change by orders of
magnitude. Additive learners need only B more numbers, Σ (change of w) · (clock at the change): the average is w minus that sum
divided by the clock. ROMMA stores its weights divided by a `scale` that every mistake changes; its clock is Σ scale_i c_i.

References: Carvalho & Cohen 2006; Littlestone 1988 (Winnow); Crammer et al. 2003 (PA); Li & Long 2002 (ROMMA).
"""

import math

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.lanes import LINE
from hpcml.kernels.lanes.products import add_scaled, prefetch

PW, BW, MBW, PERCEPTRON, PA, ROMMA = range(6)
POSITIVES, FALSE_POSITIVES, FALSE_NEGATIVES, UPDATES = range(4)
CLOCK, SCALE, NORM2, UNIT, ERROR = range(5)  # rows of `lanes`
# Bounds of a Winnow's weights. Its authors use 2^±200. Random labels push all weights to the lower bound; from 2^-200, MBW finds no
# positive row after 2,000 correctly labelled rows, since such weights are negligible compared with the threshold.
LEAST, MOST = 2.0**-10, 2.0**200
PARALLEL = 1e-12  # ROMMA: maximum sin² of the angle between a row and w for which they count as parallel
BIAS, ONE = np.array([-1], dtype=np.int64), np.ones(1)  # the bias as a row: its weights lie before those of feature 0
AHEAD = np.uint64(96)  # non-zeros between the prefetch of weights from main memory and their use
HUGE, SHRINK = 1e100, 2.0**-160  # ROMMA: above this ‖w‖², all lengths are divided by 2¹⁶⁰
PRECISE, EPSILON = 1e-13, 2.0**-53  # ROMMA: ‖w‖² is recomputed when its relative error may exceed PRECISE


@njit
def _padded_size(n):
    """Padded size for `_axpy`: n up to 2, then the next multiple of 4."""
    return n if n <= 2 else (n + 3) // 4 * 4


@njit
def _axpy(x, weights, j, out):
    """out += x · weights[j]; the size of `out` is 1, 2 or a multiple of 4."""
    if out.size <= 2:
        for c in range(out.size):
            out[c] += x * weights[j, c]
    else:
        for c in range(0, out.size, 4):
            add_scaled(out, weights, j, c, x, 4)


@njit
def _dots(indices, data, begin, end, weights, seen, out):
    """out = Σ x_j weights[j + 1] over begin..end, in order; marks the features as seen and returns (Σ x_j, min(x_j, 0)).

    Weights are prefetched AHEAD non-zeros before their use.
    """
    total, least, one, two = 0.0, 0.0, 0.0, 0.0
    last, second, narrow = np.uint64(indices.size - 1), out.size - 1, 1 <= out.size <= 2
    out[:] = 0.0
    for k in range(begin, end):
        x, j, soon = np.float64(data[k]), np.uint64(indices[k]), (np.int64(indices[min(k + AHEAD, last)]) + 1) * weights.shape[1]
        total += x
        least = min(least, x)
        if x != 0.0:
            seen[j >> np.uint64(3)] |= np.uint8(1) << np.uint8(j & np.uint64(7))
        prefetch(weights, soon, 1)
        if narrow:
            one += x * weights[j + np.uint64(1), 0]
            two += x * weights[j + np.uint64(1), second]
        else:
            for column in range(LINE, weights.shape[1], LINE):
                prefetch(weights, soon + column, 1)
            _axpy(x, weights, np.int64(j) + 1, out)
    if narrow:
        out[0], out[second] = one, two
    return total, least


@njit
def _mark(labels, i, signs, value):
    """signs[lane] = value for the labels of row i."""
    y_rows, y_indptr, y_indices, lane_of = labels
    for k in range(np.uint64(y_indptr[y_rows[i]]), np.uint64(y_indptr[y_rows[i] + 1])):
        lane = lane_of[np.uint64(y_indices[k])]
        if lane >= 0:
            signs[lane] = value


@njit
def count_runs(rows, y_indptr, y_indices, lane_of, first, last, runs, positives):
    """Count the lanes' positive rows and their runs, from row `first` on; `last`: position of the last positive row."""
    for i in range(rows.size):
        position = first + i
        for k in range(np.uint64(y_indptr[rows[i]]), np.uint64(y_indptr[rows[i] + 1])):
            lane = lane_of[np.uint64(y_indices[k])]
            if lane >= 0:
                runs[lane] += last[lane] != position - 1
                positives[lane] += 1
                last[lane] = position


@njit
def _count(counters, lane, positive, predicted):
    """Count a prediction made before the update."""
    if positive:
        counters[POSITIVES, lane] += 1
        if not predicted:
            counters[FALSE_NEGATIVES, lane] += 1
    elif predicted:
        counters[FALSE_POSITIVES, lane] += 1


@njit
def _limited(weight):
    return min(max(weight, LEAST), MOST)


@njit
def _promote(row, weights, lanes, lane, factors, balanced, voted):
    """Multiply a lane's weights of a row (indices, data, begin, end) by up · (1 + step x), v of balanced learners by
    down · (1 − step x); `factors` are (up, down, step).

    In a row without features the share of the bias is 1, so one of its factors would be 0 and stay 0. The share of such a row is
    therefore ignored in both factors; otherwise empty rows of both classes would drive the bias away.
    """
    indices, data, begin, end = row
    up, down, step = factors
    n_lanes, clock = lanes.shape[1], lanes[CLOCK, lane]
    n_weights = 2 * n_lanes if balanced else n_lanes
    for k in range(begin, end):
        if data[k] == 0.0:
            continue
        j, x = np.uint64(indices[k]) + np.uint64(1), step * np.float64(data[k])
        if voted:  # update the lazy sum
            now = weights[j, lane] - weights[j, n_lanes + lane] if balanced else weights[j, lane]
            weights[j, n_weights + lane] += now * (clock - weights[j, n_weights + n_lanes + lane])
            weights[j, n_weights + n_lanes + lane] = clock
        rise, fall = 1.0 + x, 1.0 - x
        if j == np.uint64(0) and (rise <= 0.0 or fall <= 0.0):
            rise, fall = 1.0, 1.0
        weights[j, lane] = _limited(weights[j, lane] * (up * rise))
        if balanced:
            weights[j, n_lanes + lane] = _limited(weights[j, n_lanes + lane] * (down * fall))


@njit
def learn_winnow(code, options, csr, rows, labels, voted, state):
    """One pass of a Winnow variant (Carvalho & Cohen 2006) over `rows` of `csr` (indptr, indices, data).

    `options` are (alpha, beta, theta, margin), `labels` (row in the label sets for each row, their indptr and indices, the lane of
    each label or −1), `state` (weights, lanes, counters, seen). Returns the number of rows before the first negative value.
    """
    alpha, beta, theta, margin = options
    indptr, indices, data = csr
    weights, lanes, counters, seen = state
    n_lanes, balanced = lanes.shape[1], code != PW
    dots, thick = np.empty(_padded_size(2 * n_lanes if balanced else n_lanes)), 1.0 if code == MBW else 0.0
    signs, clock, bias = np.full(n_lanes, -1.0), lanes[CLOCK], (BIAS, ONE, np.uint64(0), np.uint64(1))
    for i in range(rows.size):
        begin, end = np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])
        total, least = _dots(indices, data, begin, end, weights, seen, dots)
        if least < 0.0:
            return i
        total += 1.0  # bias
        _axpy(1.0, weights, 0, dots)
        _mark(labels, i, signs, 1.0)
        for lane in range(n_lanes):
            difference = dots[lane] - dots[n_lanes + lane] if balanced else dots[lane]
            score, positive = difference / total - theta, signs[lane] > 0.0
            _count(counters, lane, positive, score > 0.0)
            if signs[lane] * score <= margin if code == MBW else (score > 0.0) != positive:
                counters[UPDATES, lane] += 1
                factors = (alpha if positive else beta, beta if positive else alpha, signs[lane] * thick / total)
                _promote((indices, data, begin, end), weights, lanes, lane, factors, balanced, voted)
                _promote(bias, weights, lanes, lane, factors, balanced, voted)
            else:
                clock[lane] += 1.0
        _mark(labels, i, signs, -1.0)
    return rows.size


@njit
def _step(code, y, score, square, epsilon, gamma, lanes, lane):
    """Step τ of w ← scale · (w + τ x); for ROMMA also updates scale, ‖w‖² and its error."""
    if code == PERCEPTRON:
        return y
    if code == PA:
        loss, room = epsilon - y * score, square + gamma
        return y * loss / room if room > 0.0 else 0.0
    norm2, aim = lanes[NORM2, lane], y * lanes[UNIT, lane]
    if square == 0.0:
        return 0.0
    if norm2 == 0.0:  # the first mistake
        lanes[NORM2, lane] = 1.0 / square
        return y / square
    room = square * norm2 - score * score  # D
    if not room > PARALLEL * square * norm2:
        return 0.0
    b, c = norm2 / room * (aim - score), (square * norm2 - aim * score) / room
    longer = (square * norm2 - 2.0 * aim * score + aim * aim) / room  # new ‖w‖² / ‖w‖²
    lanes[NORM2, lane] = norm2 * longer
    lanes[SCALE, lane] *= c
    # The error of ‖w‖² grows by c² relative to w; room adds a rounding error.
    lanes[ERROR, lane] = c * c / longer * lanes[ERROR, lane] + square * norm2 / room * EPSILON
    return b / lanes[SCALE, lane]


@njit
def _rescale(lanes, lane, weights, bias, voted):
    """ROMMA: keep ‖w‖² precise and all numbers far from overflow, by rescaling weights and `unit`."""
    n_lanes, scale = lanes.shape[1], lanes[SCALE, lane]
    if lanes[ERROR, lane] > PRECISE:
        norm2 = weights[0, lane] * weights[0, lane] if bias != 0.0 else 0.0
        for j in range(1, weights.shape[0]):
            norm2 += weights[j, lane] * weights[j, lane]
        lanes[NORM2, lane], lanes[ERROR, lane] = scale * scale * norm2, 0.0
    if lanes[NORM2, lane] > HUGE or scale > math.sqrt(HUGE):  # move the scale into the weights
        shrink = SHRINK if lanes[NORM2, lane] > HUGE else 1.0
        for j in range(weights.shape[0]):
            weights[j, lane] *= scale * shrink
            if voted:
                weights[j, n_lanes + lane] *= shrink
        lanes[SCALE, lane] = 1.0
        lanes[CLOCK, lane] /= scale
        lanes[UNIT, lane] *= shrink
        lanes[NORM2, lane] *= shrink * shrink


@njit
def _add(row, weights, lanes, lane, step, voted):
    """Add step times a row (indices, data, begin, end) to the weights of a lane."""
    indices, data, begin, end = row
    n_lanes, clock = lanes.shape[1], lanes[CLOCK, lane]
    for k in range(begin, end):
        j = np.uint64(indices[k]) + np.uint64(1)
        change = step * np.float64(data[k])
        weights[j, lane] += change
        if voted:
            weights[j, n_lanes + lane] += change * clock


@njit
def _square(data, begin, end, bias):
    """‖x‖² of a row including its bias."""
    out = 0.0
    for k in range(begin, end):
        out += np.float64(data[k]) * np.float64(data[k])
    return out + bias * bias


@njit
def learn_additive(code, options, csr, rows, labels, voted, state):
    """One pass of the perceptron, PA or ROMMA over `rows`; returns the number of rows.

    `options` are (epsilon, gamma, value of the constant feature); the other arguments as in `learn_winnow`.
    """
    epsilon, gamma, bias = options
    indptr, indices, data = csr
    weights, lanes, counters, seen = state
    n_lanes, limit = lanes.shape[1], epsilon if code == PA else 0.0
    signs, dots, clock, scale = np.full(n_lanes, -1.0), np.empty(_padded_size(n_lanes)), lanes[CLOCK], lanes[SCALE]
    for i in range(rows.size):
        begin, end = np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])
        _dots(indices, data, begin, end, weights, seen, dots)
        _axpy(bias, weights, 0, dots)
        _mark(labels, i, signs, 1.0)
        square = -1.0
        for lane in range(n_lanes):
            score, y = scale[lane] * dots[lane], signs[lane]
            _count(counters, lane, y > 0.0, score > 0.0)
            if y * score < limit or (code != PA and score == 0.0):  # PA: ε − y · score > 0; others: y · score ≤ 0
                counters[UPDATES, lane] += 1
                if square < 0.0 and code != PERCEPTRON:
                    square = _square(data, begin, end, bias)
                step = _step(code, y, score, square, epsilon, gamma, lanes, lane)
                _add((indices, data, begin, end), weights, lanes, lane, step, voted)
                if bias != 0.0:
                    _add((BIAS, ONE, np.uint64(0), np.uint64(1)), weights, lanes, lane, step * bias, voted)
                if code == ROMMA:
                    _rescale(lanes, lane, weights, bias, voted)
            else:
                clock[lane] += scale[lane]
        _mark(labels, i, signs, -1.0)
    return rows.size
