"""One pass of mistake-driven learners over CSR rows, in row order, for a block of B labels ("lanes") at once.

The rows of `weights` are the bias (row 0) and the features (row j + 1), so that a non-zero touches neighbouring numbers only: B
weights w, or, for learners with positive and negative weights, B of u and B of v. Each lane computes what it would compute alone,
in the same order, so its bits do not depend on which labels share the pass. `counters` (4, B) counts positive rows, false
positives, false negatives (of the prediction before the update) and updates.

The average over all hypotheses (voting) is kept lazily, with 2 B more numbers in each row: B sums, Σ w_i c_i (or u_i − v_i) up to
the time, one of the B stamps, when the weights last changed. Only the weights that a mistake changes are brought up to date. The
time is the lane's clock, the number of right predictions, Σ c_i. ROMMA stores its weights divided by a `scale` that every mistake
changes; there the clock is Σ scale_i c_i.
"""

import numpy as np
from numba import njit

PW, BW, MBW, PERCEPTRON, PA, ROMMA = range(6)
POSITIVES, FALSE_POSITIVES, FALSE_NEGATIVES, UPDATES = range(4)
CLOCK, SCALE, NORM2, UNIT = range(4)  # rows of `lanes`: what a lane has beside its weights
PARALLEL = 1e-12  # ROMMA: a row is parallel to w if sin² of their angle is not above this
HUGE, SHRINK = 1e200, 2.0**-300  # ROMMA: from this ‖w‖² on, all lengths are divided by 2³⁰⁰


@njit(cache=True, error_model="numpy", inline="always")
def _axpy(x, row, out):
    """out += x · row, as far as `out` goes."""
    for lane in range(out.size):
        out[lane] += x * row[lane]


@njit(cache=True, error_model="numpy")
def _dots(indices, data, begin, end, weights, seen, out):
    """out = Σ x_j weights[j + 1] over the non-zeros begin..end, in their order; marks them as seen; (Σ x_j, least x_j or 0)."""
    total, least, one, two = 0.0, 0.0, 0.0, 0.0
    if out.size > 2:
        out[:] = 0.0
    for k in range(begin, end):
        x, j = np.float64(data[k]), np.uint64(indices[k])
        total += x
        least = min(least, x)
        if x != 0.0:
            seen[j] = True
        if out.size == 2:
            one += x * weights[j + np.uint64(1), 0]
            two += x * weights[j + np.uint64(1), 1]
        elif out.size == 1:
            one += x * weights[j + np.uint64(1), 0]
        else:
            _axpy(x, weights[j + np.uint64(1)], out)
    if out.size == 2:
        out[0], out[1] = one, two
    elif out.size == 1:
        out[0] = one
    return total, least


@njit(cache=True, error_model="numpy", inline="always")
def _mark(y_indices, begin, end, lane_of, signs, value):
    """signs[lane] = value for the row's labels."""
    for k in range(begin, end):
        lane = lane_of[np.uint64(y_indices[k])]
        if lane >= 0:
            signs[lane] = value


@njit(cache=True, error_model="numpy", inline="always")
def _count(counters, lane, positive, predicted):
    """Note a prediction made before the update."""
    if positive:
        counters[POSITIVES, lane] += 1
        if not predicted:
            counters[FALSE_NEGATIVES, lane] += 1
    elif predicted:
        counters[FALSE_POSITIVES, lane] += 1


@njit(cache=True, error_model="numpy", inline="always")
def _remember(weights, j, lane, clock, n_lanes, n_weights):
    """Bring a lane's sum in row j up to date before its weights change."""
    now = weights[j, lane] - weights[j, n_lanes + lane] if n_weights > n_lanes else weights[j, lane]
    weights[j, n_weights + lane] += now * (clock - weights[j, n_weights + n_lanes + lane])
    weights[j, n_weights + n_lanes + lane] = clock


@njit(cache=True, error_model="numpy")
def _promote(indices, data, begin, end, weights, hits, signs, step, alpha, beta, clock, n_weights, voted):
    """Update the lanes `hits` on the non-zeros begin..end and the bias; MBW's values are relative to the row's sum, by `step`."""
    n_lanes = signs.size
    for k in range(begin, end + np.uint64(1)):
        last = k == end
        if not last and data[k] == 0.0:
            continue
        j, x = (np.uint64(0), step) if last else (np.uint64(indices[k]) + np.uint64(1), np.float64(data[k]) * step)
        for h in range(hits.size):
            lane = hits[h]
            up, down = (alpha, beta) if signs[lane] > 0.0 else (beta, alpha)
            if voted:
                _remember(weights, j, lane, clock[lane], n_lanes, n_weights)
            weights[j, lane] *= up * (1.0 + signs[lane] * x)
            if n_weights > n_lanes:
                weights[j, n_lanes + lane] *= down * (1.0 - signs[lane] * x)


@njit(cache=True, error_model="numpy")
def learn_winnow(code, alpha, beta, theta, margin, csr, rows, labels, voted, state):
    """One pass of a Winnow variant (SPEC: 2, Table) over `rows` of `csr` (indptr, indices, data).

    `labels` are (for each row its row in the label sets, their indptr and indices, the lane of each label or −1), `state` is
    (weights, lanes, counters, seen). Returns how many rows came before the first with a negative value.
    """
    indptr, indices, data = csr
    y_rows, y_indptr, y_indices, lane_of = labels
    weights, lanes, counters, seen = state
    n_lanes, balanced = lanes.shape[1], code != PW
    n_weights = 2 * n_lanes if balanced else n_lanes
    signs, hits, dots, clock = np.full(n_lanes, -1.0), np.empty(n_lanes, dtype=np.int64), np.empty(n_weights), lanes[CLOCK]
    for i in range(rows.size):
        begin, end = np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])
        total, least = _dots(indices, data, begin, end, weights, seen, dots)
        if least < 0.0:
            return i
        total += 1.0  # the bias
        _axpy(1.0, weights[0], dots)
        y_begin, y_end = np.uint64(y_indptr[y_rows[i]]), np.uint64(y_indptr[y_rows[i] + 1])
        _mark(y_indices, y_begin, y_end, lane_of, signs, 1.0)
        n_hits = 0
        for lane in range(n_lanes):
            sum_ = dots[lane] - dots[n_lanes + lane] if balanced else dots[lane]
            score, positive = sum_ / total - theta, signs[lane] > 0.0
            _count(counters, lane, positive, score > 0.0)
            if signs[lane] * score <= margin if code == MBW else (score > 0.0) != positive:
                hits[n_hits] = lane
                n_hits += 1
                counters[UPDATES, lane] += 1
            else:
                clock[lane] += 1.0
        if n_hits > 0:
            step = 1.0 / total if code == MBW else 0.0
            _promote(indices, data, begin, end, weights, hits[:n_hits], signs, step, alpha, beta, clock, n_weights, voted)
        _mark(y_indices, y_begin, y_end, lane_of, signs, -1.0)
    return rows.size


@njit(cache=True, error_model="numpy")
def _step(code, y, score, square, epsilon, gamma, lanes, lane):
    """The step τ of a mistake, w ← scale · (w + τ x); for ROMMA also the new scale and ‖w‖² of the lane."""
    if code == PERCEPTRON:
        return y
    if code == PA:
        loss, room = epsilon - y * score, square + gamma
        return y * loss / room if room > 0.0 else 0.0
    norm2, unit = lanes[NORM2, lane], lanes[UNIT, lane]
    if square == 0.0:
        return 0.0
    if norm2 == 0.0:  # the first mistake
        lanes[NORM2, lane] = 1.0 / square
        return y / square
    room = square * norm2 - score * score  # D
    if not room > PARALLEL * square * norm2:
        return 0.0
    c = (square * norm2 - y * unit * score) / room
    b = norm2 * (y * unit - score) / room
    lanes[NORM2, lane] = c * c * norm2 + 2.0 * b * c * score + b * b * square
    lanes[SCALE, lane] *= c
    return b / lanes[SCALE, lane]


@njit(cache=True, error_model="numpy")
def _shrink(lanes, lane, weights, voted):
    """ROMMA: divide a lane's lengths by a power of two before they overflow; only the 1 it aims at (`unit`) notices."""
    lanes[SCALE, lane] *= SHRINK
    lanes[UNIT, lane] *= SHRINK
    lanes[NORM2, lane] *= SHRINK * SHRINK
    lanes[CLOCK, lane] *= SHRINK
    if voted:
        for j in range(weights.shape[0]):
            weights[j, lanes.shape[1] + lane] *= SHRINK
            weights[j, 2 * lanes.shape[1] + lane] *= SHRINK


@njit(cache=True, error_model="numpy")
def _add(indices, data, begin, end, weights, hits, steps, bias, clock, voted):
    """Add to the lanes hits[h] steps[h] times the non-zeros begin..end, and the bias."""
    n_lanes = clock.size
    for k in range(begin, end + np.uint64(1 if bias != 0.0 else 0)):
        last = k == end
        j, x = (np.uint64(0), bias) if last else (np.uint64(indices[k]) + np.uint64(1), np.float64(data[k]))
        for h in range(hits.size):
            if voted:
                _remember(weights, j, hits[h], clock[hits[h]], n_lanes, n_lanes)
            weights[j, hits[h]] += x * steps[h]


@njit(cache=True, error_model="numpy")
def _square(data, begin, end, bias):
    """‖x‖² of a row with its bias."""
    out = 0.0
    for k in range(begin, end):
        out += np.float64(data[k]) * np.float64(data[k])
    return out + bias * bias


@njit(cache=True, error_model="numpy")
def learn_additive(code, epsilon, gamma, bias, csr, rows, labels, voted, state):
    """One pass of the perceptron, PA or ROMMA (SPEC: 2, Table) over `rows`; `bias` is the value of the constant feature.

    The other arguments are as in `learn_winnow`. Returns the number of rows.
    """
    indptr, indices, data = csr
    y_rows, y_indptr, y_indices, lane_of = labels
    weights, lanes, counters, seen = state
    n_lanes, limit = lanes.shape[1], epsilon if code == PA else 0.0
    signs, hits = np.full(n_lanes, -1.0), np.empty(n_lanes, dtype=np.int64)
    steps, dots, clock, scale = np.empty(n_lanes), np.empty(n_lanes), lanes[CLOCK], lanes[SCALE]
    for i in range(rows.size):
        begin, end = np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])
        _dots(indices, data, begin, end, weights, seen, dots)
        _axpy(bias, weights[0], dots)
        y_begin, y_end = np.uint64(y_indptr[y_rows[i]]), np.uint64(y_indptr[y_rows[i] + 1])
        _mark(y_indices, y_begin, y_end, lane_of, signs, 1.0)
        n_hits, square = 0, -1.0
        for lane in range(n_lanes):
            score, y = scale[lane] * dots[lane], signs[lane]
            _count(counters, lane, y > 0.0, score > 0.0)
            if y * score < limit or (code != PA and score == 0.0):  # PA: ε − y · score > 0; the others: y · score ≤ 0
                if square < 0.0 and code != PERCEPTRON:
                    square = _square(data, begin, end, bias)
                steps[n_hits], hits[n_hits] = _step(code, y, score, square, epsilon, gamma, lanes, lane), lane
                n_hits += 1
                counters[UPDATES, lane] += 1
            else:
                clock[lane] += scale[lane]
        if n_hits > 0:
            _add(indices, data, begin, end, weights, hits[:n_hits], steps, bias, clock, voted)
        for h in range(n_hits):
            if lanes[NORM2, hits[h]] > HUGE:
                _shrink(lanes, hits[h], weights, voted)
        _mark(y_indices, y_begin, y_end, lane_of, signs, -1.0)
    return rows.size
