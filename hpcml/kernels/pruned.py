"""The best labels of rows without computing all scores: upper bounds select labels, and only these are scored.

If no x is negative, the score of a label is at most its intercept plus Σ x v, where v ≥ w is a multiple of 1/127 of the column's
largest weight. A *cell* has one such bound: of one label, or of BLOCK labels, with the largest weights of these. Frequent columns
store v / scale in a table of bytes. In other columns ("rare"), positive weights are added one by one, and negative ones count as 0.

A batch of rows takes three steps: sums of the rare columns; sums of the frequent columns, tile by tile, each for all rows, so that
a tile stays in the L2 cache; then each row's labels are scored, first those of the cells with the largest bounds, which give a k-th
best value, then those of all cells whose bounds reach it. The scores have the bits of `kernels.scores`.

Models with few weights per column (texts with rare labels after `--drop`) are fastest with cells of several labels: the sums take
an eighth of the time. Labels with very many weights get cells of their own, because bounds of their blocks would be far too large.

Sums of 16-bit integers were tried and rejected: they take 15 % less time, but their rounding selects 11 instead of 7 labels per
row (28,544 labels), and 223 instead of 35 (72,390 labels).
"""

from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.lanes.bounds import TILE, add_levels
from hpcml.kernels.rows import first_at_least
from hpcml.kernels.top import keep_one, value_of

BLOCK = 8  # labels of a cell
LEVELS = 127
SEARCH = 32  # ratio of weights to row values above which a label's weights are searched instead of read
BATCH, ROOM = 1024, 1 << 27  # rows of a batch, and bytes of their sums
FIRST = 64  # rows of the first batch
MOST_SCORED = 1 / 128  # bounds are no longer used when this share of the labels is scored on average
LARGEST = 1e15  # largest number in a bound
Arrays = tuple[np.ndarray, ...]


class Index(NamedTuple):
    """The bounds of a model's scores."""

    largest: np.ndarray  # (c) largest magnitudes of weights
    line_of: np.ndarray  # (c) the line of a frequent column in `table`, or −1
    scales: np.ndarray  # of the lines
    table: np.ndarray  # (tiles, lines, TILE) int8
    rare: Arrays  # positive weights of the rare columns: (begins, cells, weights)
    dense: np.ndarray  # (n, c) weights of the first n cells, whose labels have most weights
    members: Arrays  # (starts, labels): cell c has labels[starts[c] : starts[c + 1]]
    cells: Arrays  # (bases, slopes) of cells, float32: a value is at most slope · sum + base
    labels: Arrays  # (bases, slopes) of labels


@njit
def measure_columns(indices, data, counts, n_positive, largest):
    """Count the weights and positive weights of each column, and find the largest magnitude."""
    for k in range(indices.size):
        column = np.uint64(indices[k])
        counts[column] += 1
        n_positive[column] += np.int64(data[k] > 0.0)
        largest[column] = max(largest[column], abs(np.float64(data[k])))


@njit
def fill_table(W, cells, n_single, lines, scales, table):
    """Fill table[t, f] (TILE) for columns with lines[column] = f ≥ 0; cells[label] < `n_single` have one label."""
    indptr, indices, data = W
    for label in range(cells.size):
        cell = cells[label]
        tile, place = table[cell // TILE], cell % TILE
        for k in range(np.uint64(indptr[label]), np.uint64(indptr[label + 1])):
            line = lines[np.uint64(indices[k])]
            if line >= 0 and (data[k] > 0.0 or cell < n_single):
                level = np.int8(min(np.ceil(np.float64(data[k]) / scales[line]), 127.0))
                tile[line, place] = level if cell < n_single else max(tile[line, place], level)


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
def _sum_dense(weights, values):
    columns, x, factors = values
    total = 0.0
    for k in range(columns.size):
        total += x[k] * (np.float64(weights[np.uint64(columns[k])]) * factors[k])
    return total


@njit
def fill_dense(W, labels, out):
    """out[i] (c) = weights of labels[i]."""
    indptr, indices, data = W
    for i in range(out.shape[0]):
        for k in range(np.uint64(indptr[labels[i]]), np.uint64(indptr[labels[i] + 1])):
            out[i, np.uint64(indices[k])] = data[k]


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
    columns, factors, _ = model
    begin, end = np.uint64(csr[0][row]), np.uint64(csr[0][row + 1])
    for k in range(end - begin):
        j = np.uint64(csr[1][begin + np.uint64(k)])
        room[0][k], room[1][k], room[2][k] = columns[j], csr[2][begin + np.uint64(k)], factors[j]
    n = np.int64(end - begin)
    return room[0][:n], room[1][:n], room[2][:n]


@njit
def _make_room(indptr, rows, n_columns):
    """Arrays for values, marks and hits of one row."""
    longest = 0
    for i in range(rows.size):
        longest = max(longest, indptr[rows[i] + 1] - indptr[rows[i]])
    values = np.empty(longest, np.int64), np.empty(longest), np.empty(longest)
    marks = np.zeros(n_columns, np.uint8), np.empty(n_columns, np.int32), np.empty(longest, np.int32)
    return values, marks, (np.empty(longest + 1, np.int64), np.empty(longest, np.int64), np.empty(longest))


@njit
def score_rows_by_label(csr, rows, model, W, n_columns, divisors, out):
    """`kernels.scores.score_rows_by_column` without weights by column; `model` is (columns, factors, bias), W is CSR."""
    value_room, marks, room = _make_room(csr[0], rows, n_columns)
    bad = -1
    for i in range(rows.size):
        values = _values(csr, rows[i], model, value_room)
        _mark(values[0], marks)
        for label in range(W[0].size - 1):
            out[i, label] = _score(label, W, model[2], values, marks, room) / divisors[i]
            bad = label if bad < 0 and np.isnan(out[i, label]) else bad
        _unmark(values[0], marks[0])
    return bad


@njit
def _divide(values, index, lines, numbers, sums):
    """Write a row's lines and numbers, and to `sums` the sums of rare columns; return the number of lines (−1: no bounds)."""
    (columns, x, factors), (begins, cells, weights) = values, index.rare
    total = 0.0
    for k in range(columns.size):
        y = x[k] * factors[k]
        if not (0.0 <= y <= LARGEST):
            return -1
        total += y * index.largest[np.uint64(columns[k])]
    sums[:] = np.float32(total * (columns.size + 1) * BLOCK * BLOCK * 2.0**-23 + 1e-30)  # more than the rounding of all sums
    n = 0
    for k in range(columns.size):
        column, y = np.uint64(columns[k]), x[k] * factors[k]
        if index.line_of[column] >= 0:
            lines[n], numbers[n] = index.line_of[column], y * index.scales[index.line_of[column]]
            n += 1
            continue
        for p in range(begins[column], begins[column + np.uint64(1)]):
            sums[np.uint64(cells[np.uint64(p)])] += np.float32(y) * np.float32(weights[np.uint64(p)])
    return n


@njit
def _below(value):
    return np.float32(value - abs(value) * 2.0**-22 - 1e-30)


@njit
def _score_cell(cell, total, index, scoring, sigmoids, best):
    """Score the labels of a cell whose own bounds reach the k-th best value; return their number."""
    (starts, labels), (bases, slopes), n = index.members, index.labels, 0
    for p in range(starts[cell], starts[cell + 1]):
        label = labels[p]
        if not total * slopes[label] + bases[label] < _below(value_of(best[0][0], best[1][0], *sigmoids)):
            if cell < index.dense.shape[0]:
                score = _sum_dense(index.dense[cell], scoring[2]) + scoring[1][label]
            else:
                score = _score(label, *scoring)
            keep_one(score, label, *sigmoids, *best)
            n += 1
    return n


@njit
def _next_cell(sums, tile, cells, done):
    """Return the cell of a tile with the largest bound that is not done, this bound, and the next largest."""
    bases, slopes = cells
    largest, following, best = np.float32(-np.inf), np.float32(-np.inf), -1
    for cell in range(tile * TILE, tile * TILE + TILE):
        bound = sums[cell] * slopes[cell] + bases[cell]
        if bound > following and not done[cell]:
            if bound > largest:
                largest, following, best = bound, largest, cell
            else:
                following = bound
    return best, following


@njit
def _finish_row(sums, maxima, index, scoring, sigmoids, done, taken, best):
    """Score the labels of a row whose bounds reach the k-th best value; return their number."""
    (bases, slopes), n, n_taken = index.cells, 0, 0
    for _ in range(best[0].size):  # for a k-th best value
        tile = maxima.argmax()
        cell, following = _next_cell(sums, tile, index.cells, done)
        if cell < 0 or maxima[tile] < _below(value_of(best[0][0], best[1][0], *sigmoids)):
            break
        n += _score_cell(cell, sums[cell], index, scoring, sigmoids, best)
        done[cell], taken[n_taken], maxima[tile] = True, cell, following
        n_taken += 1
    worst = _below(value_of(best[0][0], best[1][0], *sigmoids))
    for tile in range(maxima.size):
        if not maxima[tile] < worst:
            for cell in range(tile * TILE, tile * TILE + TILE):
                if not sums[cell] * slopes[cell] + bases[cell] < worst and not done[cell] and bases[cell] > -np.inf:
                    n += _score_cell(cell, sums[cell], index, scoring, sigmoids, best)
                    worst = _below(value_of(best[0][0], best[1][0], *sigmoids))
    done[taken[:n_taken]] = False
    return n


@njit
def best_pruned(csr, rows, model, W, sigmoids, index, left, best_scores, best_labels):
    """Insert scores of `rows` into their heaps (n, k) with an index; `model` is (columns, factors, bias), W is CSR.

    Flag in `left` the rows that need all scores: those with negative values, and all others once bounds select too many labels.
    """
    n_tiles, n_labels = index.table.shape[0], model[2].size
    step = max(1, min(BATCH, rows.size, ROOM // (4 * TILE * max(1, n_tiles))))
    value_room, marks, room = _make_room(csr[0], rows, index.largest.size)
    sums, maxima = np.empty((step, n_tiles * TILE), np.float32), np.empty((step, n_tiles), np.float32)
    done, taken = np.zeros(n_tiles * TILE, np.bool_), np.empty(best_scores.shape[1], np.int64)
    ends, lines, numbers = np.zeros(step + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
    bases, slopes = index.cells
    begin, end, is_useful = 0, min(step, FIRST), True
    while begin < rows.size and is_useful:
        batch = rows[begin:end]
        most = (csr[0][batch + 1] - csr[0][batch]).sum()
        if most > lines.size:
            lines, numbers = np.empty(most, np.int32), np.empty(most, np.float32)
        for i in range(batch.size):
            values = _values(csr, batch[i], model, value_room)
            n = _divide(values, index, lines[ends[i] :], numbers[ends[i] :], sums[i])
            left[begin + i], ends[i + 1] = n < 0, ends[i] + max(0, n)
        for tile in range(n_tiles):
            levels = index.table[tile]
            for i in range(batch.size):
                span = ends[i], ends[i + 1]
                maxima[i, tile] = add_levels(levels, lines, numbers, span, sums, i, tile * TILE, bases, slopes, 16)
        n_scored = 0
        for i in range(batch.size):
            if not left[begin + i]:
                values = _values(csr, batch[i], model, value_room)
                _mark(values[0], marks)
                best, scoring = (best_scores[begin + i], best_labels[begin + i]), (W, model[2], values, marks, room)
                n_scored += _finish_row(sums[i], maxima[i], index, scoring, sigmoids, done, taken, best)
                _unmark(values[0], marks[0])
        is_useful = n_scored <= MOST_SCORED * n_labels * batch.size
        begin, end = end, end + step
    left[begin:] = True
