"""The best labels of rows without computing all scores.

Bounds (`hpcml.kernels.bounds`) select the labels that can be among the best; only these are scored, with the bits of
`score_inverted`.

A batch of rows takes three steps. First, each row gets the sums of its rare columns, and its heavy labels are scored, which gives a
first k-th best value. Then the table of the frequent columns is processed tile by tile, each for all rows, and selects the labels
whose bounds reach the k-th best value. Finally these are scored.

If bounds do not hold (a value below 0 or too large, a sum that divides) or select too many labels, all labels of a row are scored.
If bounds select many labels of a batch, this is done for all following rows.
"""

from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.bounds import BLOCK, FULL, LEVELS, MOST_AT_ONCE, TILE, add_rare
from hpcml.kernels.lanes.bounds import add_levels
from hpcml.kernels.rows import first_at_least
from hpcml.kernels.scores import add_column, score_row_by_column
from hpcml.kernels.top import NONE, keep_one, keep_row, score_inverted, value_of

PARTS = 4  # maximum lines among which a value's m is divided
SEARCH = 32  # ratio of weights to row values above which a label's weights are searched instead of read
BATCH, ROOM = 2048, 1 << 27  # rows of a batch, and bytes of their sums of rare columns
FIRST = 128  # rows of the first batch
MOST_LEFT = 4096  # maximum labels of a row that are scored one by one
FEW_LEFT = 256  # bounds are no longer used when they select more than one label in this number on average
LARGEST = 1e15  # largest number in a bound
Arrays = tuple[np.ndarray, ...]


class Index(NamedTuple):
    """The bounds of a model's scores, by blocks of labels (`hpcml.kernels.bounds`)."""

    line_of: np.ndarray  # (c) the line of a frequent column in `table`, or −1
    scales: np.ndarray  # of the lines
    table: np.ndarray  # (tiles, lines, TILE) bytes
    rare: Arrays  # the rare columns: (begins, blocks, weights)
    heavy: np.ndarray  # heavy labels
    by_column: Arrays  # their weights: (begins, lanes, weights)
    blocks: Arrays  # (bases, slopes) of blocks
    labels: Arrays  # (bases, slopes) of labels
    usual: tuple[float, float]  # a usual base and slope of a label


class RowBatch(NamedTuple):
    values: Arrays  # columns, values and factors of one row
    rare: np.ndarray  # (n, blocks) sums of rare columns
    units: np.ndarray  # (n) unit of the table's sums; 0: the row has no bounds
    worst: np.ndarray  # (n) float32, at most the k-th best value
    ends: np.ndarray  # (n + 1) row i has lines[ends[i] : ends[i + 1]] times `numbers`
    lines: np.ndarray
    numbers: np.ndarray
    selected: np.ndarray  # (n, room) labels selected by bounds
    bounds: np.ndarray  # (n, room) of these
    counts: np.ndarray  # (n) number of selected labels; may exceed the room


@njit
def _slack(n):
    """A factor above 1 by more than all float32 roundings in a sum of n values."""
    return 1.0 + (n + 32) * 2.0**-22


@njit
def _mark(columns, marks):
    """Mark a row's columns, and list the value indices k of each column."""
    marked, first, following = marks
    for k in range(columns.size):
        column = np.uint64(columns[k])
        following[k] = first[column] if marked[column] else -1
        first[column] = k
        marked[column] = 1


@njit
def _unmark(columns, marked):
    for k in range(columns.size):
        marked[np.uint64(columns[k])] = 0


@njit
def _read(indices, marked, hits):
    """Write the positions in `indices` of marked columns to hits; return their number."""
    n = np.uint64(0)
    for p in range(indices.size):
        hits[n] = p
        n += np.uint64(marked[np.uint64(indices[p])])
    return n


@njit
def _sum_read(indices, weights, values, marks, room):
    """Σ x (w factor) in the order of the row's values, reading all weights."""
    _, x, factors = values
    hits, order, hit_weights = room
    n = 0
    for h in range(_read(indices, marks[0], hits)):
        p = np.uint64(hits[h])
        k = marks[1][np.uint64(indices[p])]
        while k >= 0:
            at = n
            while at > 0 and order[at - 1] > k:
                order[at], hit_weights[at] = order[at - 1], hit_weights[at - 1]
                at -= 1
            order[at], hit_weights[at] = k, np.float64(weights[p])
            n += 1
            k = marks[2][k]
    total = 0.0
    for i in range(n):
        total += x[order[i]] * (hit_weights[i] * factors[order[i]])
    return total


@njit
def _sum_searched(indices, weights, values):
    """`_sum_read` by binary search, for many weights."""
    columns, x, factors = values
    total = 0.0
    for k in range(columns.size):
        at = first_at_least(indices, 0, indices.size, columns[k])
        if at < indices.size and indices[at] == columns[k]:
            total += x[k] * (np.float64(weights[at]) * factors[k])
    return total


@njit
def _score(label, W, bias, values, marks, room):
    begin, end = np.uint64(W[0][label]), np.uint64(W[0][label + 1])
    indices, weights = W[1][begin:end], W[2][begin:end]
    if indices.size > SEARCH * values[0].size:
        return _sum_searched(indices, weights, values) + bias[label]
    return _sum_read(indices, weights, values, marks, room) + bias[label]


@njit
def _values(csr, row, model, room):
    """Columns, values and factors of a row, in `room`."""
    _, columns, factors, _ = model
    begin, end = np.uint64(csr[0][row]), np.uint64(csr[0][row + 1])
    for k in range(end - begin):
        j = np.uint64(csr[1][begin + np.uint64(k)])
        room[0][k], room[1][k], room[2][k] = columns[j], csr[2][begin + np.uint64(k)], factors[j]
    n = np.int64(end - begin)
    return room[0][:n], room[1][:n], room[2][:n]


@njit
def _add_rare_columns(values, rare, out):
    """out (blocks) = sums of a row's rare columns. Return False if bounds do not hold."""
    columns, x, factors = values
    begins, blocks, weights = rare
    out[:] = np.float32(0.0)
    slack = _slack(columns.size)
    for k in range(columns.size):
        y = x[k] * factors[k]
        if not (0.0 <= y <= LARGEST):
            return False
        first, last = begins[columns[k]], begins[columns[k] + 1]
        add_rare(np.float32(y * slack), blocks[first:last], weights[first:last], out)
    return True


@njit
def _score_heavy(values, index, bias, scores, sigmoids, best):
    (columns, x, factors), (begins, lanes, weights), labels = values, index.by_column, index.heavy
    scores[:] = 0.0
    for k in range(columns.size):
        first, last = begins[columns[k]], begins[columns[k] + 1]
        add_column(x[k], factors[k], lanes[first:last], weights[first:last], scores)
    for lane in range(labels.size):
        keep_one(scores[lane] + bias[labels[lane]], labels[lane], sigmoids[0], sigmoids[1], best[0], best[1])


@njit
def _divide(values, gap, index, lines, numbers):
    """Write a row's lines and integers m; return their number and the unit of their sums. FULL is 4 · `gap` or the largest sum."""
    (columns, x, factors), line_of, scales = values, index.line_of, index.scales
    slack, n = _slack(columns.size), 0
    total, largest = 0.0, 0.0
    for k in range(columns.size):
        if line_of[columns[k]] >= 0:
            step = x[k] * factors[k] * slack * scales[line_of[columns[k]]]
            total, largest = total + LEVELS * step, max(largest, step)
    total = min(total, 4.0 * gap) if gap > 0.0 else total
    unit = max(total / FULL, 1.01 * largest / ((PARTS - 1) * MOST_AT_ONCE), 1e-30)
    for k in range(columns.size):
        line = line_of[columns[k]]
        if line >= 0:
            left = np.int64(np.ceil(x[k] * factors[k] * slack * scales[line] / unit))
            while left > 0:
                lines[n], numbers[n] = line, min(left, MOST_AT_ONCE)
                left -= MOST_AT_ONCE
                n += 1
    return n, unit


@njit
def _below(value):
    return np.float32(value - abs(value) * 2.0**-22 - 1e-30)


@njit
def _bound_blocks(sums, rare, unit, worst, blocks, out):
    """out[a] = upper bound of the values of block a of a tile; return whether any reaches `worst`."""
    bases, slopes = blocks
    n = np.int32(0)
    for a in range(TILE):
        bound = (np.float32(sums[a]) * unit + rare[a]) * slopes[a] + bases[a]
        out[a] = np.float32(np.inf) if sums[a] == FULL else bound
        n += np.int32(not out[a] < worst)
    return n > 0


@njit
def _append(begin, total, worst, labels, out):
    """Append the labels of a block whose bound reaches `worst`; return their total number. `out` is (labels, bounds, number)."""
    bases, slopes = labels
    selected, bounds, n = out
    for label in range(begin, min(begin + BLOCK, bases.size)):
        bound = total * slopes[label] + bases[label]
        if not bound < worst and bases[label] > -np.inf:  # heavy labels are in no block
            if n < selected.size:
                selected[n], bounds[n] = label, bound
            n += 1
    return n


@njit
def _start_batch(csr, rows, model, sums, sigmoids, index, batch, best):
    ends, scores = batch.ends, np.empty(index.heavy.size)
    ends[0] = 0
    for i in range(rows.size):
        own, values = (best[0][i], best[1][i]), _values(csr, rows[i], model, batch.values)
        batch.units[i], ends[i + 1] = 0.0, ends[i]
        if sums[i] == 1.0 and _add_rare_columns(values, index.rare, batch.rare[i]):
            _score_heavy(values, index, model[3], scores, sigmoids, own)
            least = value_of(own[0][0], own[1][0], *sigmoids)
            gap = (least - index.usual[0]) / index.usual[1]
            n, batch.units[i] = _divide(values, gap, index, batch.lines[ends[i] :], batch.numbers[ends[i] :])
            batch.worst[i] = _below(least)
            ends[i + 1] += n


@njit
def _select_labels(index, batch, n_rows):
    table, (bases, slopes), units, worst, counts = index.table, index.blocks, batch.units, batch.worst, batch.counts
    sums, most = np.empty(TILE, np.uint16), np.empty(TILE, np.float32)
    counts[:n_rows] = 0
    for tile in range(table.shape[0]):
        blocks = slice(tile * TILE, tile * TILE + TILE)
        block_lines = bases[blocks], slopes[blocks]
        for i in range(n_rows):
            if units[i] == 0.0 or counts[i] > batch.selected.shape[1]:
                continue
            unit, own = np.float32(units[i]), batch.rare[i][blocks]
            add_levels(table[tile], batch.lines, batch.numbers, batch.ends[i], batch.ends[i + 1], sums)
            if _bound_blocks(sums, own, unit, worst[i], block_lines, most):
                for a in range(TILE):
                    if not most[a] < worst[i]:
                        total = np.float32(np.inf) if sums[a] == FULL else np.float32(sums[a]) * unit + own[a]
                        out = batch.selected[i], batch.bounds[i], counts[i]
                        counts[i] = _append((tile * TILE + a) * BLOCK, total, worst[i], index.labels, out)


@njit
def _score_selected(selected, bounds, values, W, bias, sigmoids, marks, room, best):
    """Third step of a row: score the selected labels whose bounds still reach the k-th best value."""
    worst = _below(value_of(best[0][0], best[1][0], *sigmoids))
    _mark(values[0], marks)
    for i in range(selected.size):
        if not bounds[i] < worst:
            score = _score(selected[i], W, bias, values, marks, room)
            keep_one(score, selected[i], *sigmoids, *best)
            worst = _below(value_of(best[0][0], best[1][0], *sigmoids))
    _unmark(values[0], marks[0])


@njit
def _finish_batch(csr, rows, model, sums, sigmoids, scoring, batch, best):
    """Third step of a batch. Return the first label whose score is NaN, or −1."""
    (W, marks, room), bias, scores = scoring, model[3], np.empty(0)
    for i in range(rows.size):
        n, own = batch.counts[i], (best[0][i], best[1][i])
        if batch.units[i] > 0.0 and n <= batch.selected.shape[1]:
            if n:
                values = _values(csr, rows[i], model, batch.values)
                _score_selected(batch.selected[i][:n], batch.bounds[i][:n], values, W, bias, sigmoids, marks, room, own)
            continue
        own[0][:], own[1][:] = -np.inf, NONE
        scores = np.empty(bias.size) if scores.size == 0 else scores
        bad = score_row_by_column(csr, rows[i], model, sums[i], scores)
        if bad >= 0:
            return bad
        keep_row(scores, 0, *sigmoids, *own)
    return -1


@njit
def _sizes(indptr, rows, step):
    """Return the maximum values of a row, and the maximum lines of any `step` consecutive rows."""
    longest, most, total = 0, 0, 0
    for i in range(rows.size):
        n = indptr[rows[i] + 1] - indptr[rows[i]]
        longest, total = max(longest, n), total + PARTS * n
        if i >= step:
            total -= PARTS * (indptr[rows[i - step] + 1] - indptr[rows[i - step]])
        most = max(most, total)
    return longest, most


@njit
def best_pruned(csr, rows, model, W, sums, sigmoids, index, best_scores, best_labels):
    """`score_inverted` with the help of an index; W is the model's CSR matrix."""
    n_blocks, n_columns = index.blocks[0].size, model[0][0].size
    step = max(1, min(BATCH, rows.size, ROOM // (4 * n_blocks)))
    longest, most = _sizes(csr[0], rows, step)
    marks = np.zeros(n_columns, np.uint8), np.empty(n_columns, np.int32), np.empty(longest, np.int32)
    scoring = W, marks, (np.empty(longest + 1, np.int64), np.empty(longest, np.int64), np.empty(longest))
    values, n_left = (np.empty(longest, np.int64), np.empty(longest), np.empty(longest)), min(MOST_LEFT, n_blocks // 8)
    rare, lines, numbers = np.empty((step, n_blocks), np.float32), np.empty(most, np.int32), np.empty(most, np.int32)
    units, worst, ends = np.empty(step), np.empty(step, np.float32), np.empty(step + 1, np.int64)
    selected, bounds, counts = np.empty((step, n_left), np.int64), np.empty((step, n_left), np.float32), np.zeros(step, np.int64)
    batch = RowBatch(values, rare, units, worst, ends, lines, numbers, selected, bounds, counts)
    begin, end, is_useful = 0, min(step, FIRST), True
    while begin < rows.size and is_useful:
        part = slice(begin, end)
        best = best_scores[part], best_labels[part]
        _start_batch(csr, rows[part], model, sums[part], sigmoids, index, batch, best)
        _select_labels(index, batch, rows[part].size)
        bad = _finish_batch(csr, rows[part], model, sums[part], sigmoids, scoring, batch, best)
        if bad >= 0:
            return bad
        is_useful = batch.counts[: rows[part].size].mean() <= model[3].size / FEW_LEFT
        begin, end = end, end + step
    return score_inverted(csr, rows[begin:], model, sums[begin:], sigmoids, best_scores[begin:], best_labels[begin:])
