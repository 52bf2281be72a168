"""One pass over CSR rows: losses and subgradients of a panel of labels; dormant rows are skipped.

A panel holds L labels ("lanes"), L one of `lanes.WIDTHS`. Its weights `w` and subgradient `g` are flat, feature-major arrays (d L),
so a non-zero touches L contiguous numbers. Rows are processed in tiles: first all margins of the tile, then all slopes, then all
updates, which keeps branch misses of one loop out of the others. Every lane is computed in the same order for any L, and sums over
rows are made on a grid (`hpcml.mpi.exact_sum`), so the bits depend neither on the panel nor on how rows are distributed over ranks.

Each (row, lane) has one byte: POSITIVE if the row has the label, and its state: q < 10, active and without violation in the last q
steps, or ASLEEP + (s mod 32), dormant until step s of the label.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from hpcml.kernels import by_constant, njit
from hpcml.kernels.lanes import LINE
from hpcml.kernels.lanes.products import add_lines, dot_rows
from hpcml.losses import FIRST_ORDER, load_loss

TILE, TILES = 32, 1024  # rows of a tile, and of the tiles whose updates are made together
CHUNK = 4096  # features whose sums are made together, so ranks with different features get the same bits
LOSSES = [load_loss(name) for name in FIRST_ORDER]  # part of the kernels' digest: a changed loss recompiles them

ACTIVE, QUIET, TIRED, ASLEEP, IDLE = (np.uint8(state) for state in (0, 9, 10, 16, 63))
STATE, POSITIVE = np.uint8(63), np.uint8(64)  # bits of a row's byte
ONE = np.uint8(1)
CLOCK = 31  # waking steps are stored modulo 32, because rows sleep less than 16 steps
SHORTEST, SPREAD = 5, np.uint64(11)  # a row sleeps 5 to 15 steps
HIGH, LOW, VIOLATORS, VISITED = range(4)  # rows of `sums`


class RowRange(NamedTuple):
    """CSR rows; row i is row first + i of all ranks' rows."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    first: int


class PanelArrays(NamedTuple):
    """Arrays of a panel that a pass reads and updates; L lanes, d columns, n rows."""

    w: np.ndarray  # (d L)
    state: np.ndarray  # (n L) uint8
    keys: np.ndarray  # (L) uint64, random keys of the labels
    steps: np.ndarray  # (L)
    shifts: np.ndarray  # (2, L) grids of the losses
    g: np.ndarray  # (d L) += Σ ∂ℓ/∂w
    sums: np.ndarray  # (4, L) += losses (high, low), violators, visited rows


class PassRule(NamedTuple):
    dormant: int  # 0: rows never become dormant
    rounded: int  # 1: addends are rounded to the grids shift_of_level[levels[j]]
    levels: np.ndarray
    shift_of_level: np.ndarray


@njit(inline="always")
def sleep(key, row, step):
    """Return the number of steps, 5 to 15, that a row sleeps from a label's step; `row` is global."""
    x = key ^ (np.uint64(row) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(step) * np.uint64(0xC2B2AE3D27D4EB4F))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return SHORTEST + np.int64(((x >> np.uint64(32)) * SPREAD) >> np.uint64(32))


@njit
def _due(state, wake, lanes, due):
    """Collect in `due` the rows of a tile that some lane must visit; return their number."""
    n = 0
    for i in range(state.size // lanes):
        any_due = False
        for e in range(i * lanes, (i + 1) * lanes):
            any_due |= ((state[e] & STATE) < ASLEEP) | ((state[e] & STATE) == wake[e])
        if any_due:
            due[n] = i
            n += 1
    return n


@cache
def _slopes_of(loss: str) -> Any:
    @njit
    def slopes_of_loss(state, wake, z, values, slopes):
        """values = ℓ and slopes = ∂ℓ/∂z of each pair that is due, else 0; z is w · x."""
        for e in range(state.size):  # vectorised, because the loss is a constant
            margin = np.float64(z[e]) if state[e] & POSITIVE else -np.float64(z[e])
            value, slope, _ = _at(loss, margin)
            due = ((state[e] & STATE) < ASLEEP) | ((state[e] & STATE) == wake[e])
            values[e] = value if due else 0.0
            slopes[e] = (slope if state[e] & POSITIVE else -slope) if due else 0.0

    return slopes_of_loss


_at, _slopes = by_constant(lambda loss: load_loss(loss).at), by_constant(_slopes_of)


@njit
def _add_losses(values, high_shift, low_shift, high, low):
    """Add each loss to its sum, in two levels."""
    for e in range(values.size):
        rounded = (values[e] + high_shift[e]) - high_shift[e]
        high[e] += rounded
        low[e] += ((values[e] - rounded) + low_shift[e]) - low_shift[e]


@njit
def _count(state, wake, values, violators, visited):
    for e in range(state.size):
        visited[e] += 1.0 if ((state[e] & STATE) < ASLEEP) | ((state[e] & STATE) == wake[e]) else 0.0
    for e in range(values.size):
        violators[e] += 1.0 if values[e] > 0.0 else 0.0


@njit
def _find_lines(slopes, begin, end, line, lines, n):
    """Append to the first n of `lines` the starts of lines with a non-zero slope; return their number."""
    for at in range(begin, end, line):
        has_slope = False
        if line == LINE:
            for e in range(LINE):
                has_slope |= slopes[np.uint64(at + e)] != 0.0
        else:
            for e in range(line):
                has_slope |= slopes[np.uint64(at + e)] != 0.0
        lines[n] = at
        n += has_slope
    return n


@njit
def _update_states(state, wake, quiet, values):
    """Update the state of each due pair: `quiet` after QUIET visits without violation."""
    for e in range(state.size):
        now = state[e] & STATE
        quieter = now + ONE if now < QUIET else quiet
        quieter = quieter if (now < ASLEEP) | (now == wake[e]) else now
        state[e] = (ACTIVE if values[e] > 0.0 else quieter) | (state[e] & POSITIVE)


@njit
def _put_to_sleep(state, keys, steps, first_row):
    lanes = steps.size
    for i in range(state.size // lanes):
        tired = False
        for e in range(i * lanes, (i + 1) * lanes):
            tired |= (state[e] & STATE) == TIRED
        if tired:
            for lane in range(lanes):
                byte = state[i * lanes + lane]
                if byte & STATE == TIRED:
                    waking = steps[lane] + 1 + sleep(keys[lane], first_row + i, steps[lane])
                    state[i * lanes + lane] = np.uint8((byte & POSITIVE) | (ASLEEP + (waking & CLOCK)))


@njit
def _wakes_and_shifts(steps, shifts):
    """Return for each pair of a tile the state that wakes now, and the grids of its losses."""
    lanes, n_pairs = steps.size, TILE * steps.size
    wake, high_shift, low_shift = np.empty(n_pairs, np.uint8), np.empty(n_pairs), np.empty(n_pairs)
    for e in range(n_pairs):
        wake[e] = ASLEEP + (steps[e % lanes] & CLOCK)
        high_shift[e], low_shift[e] = shifts[0, e % lanes], shifts[1, e % lanes]
    return wake, high_shift, low_shift


@cache
def passes_of(loss: str) -> tuple[Any, Any]:
    @njit
    def panel_pass(rows, arrays, rule):
        """Add ∂ℓ/∂w of due rows to `g`, and losses and row counts to `sums`."""
        indptr, indices, data, first_row = rows
        w, state, keys, steps, shifts, g, sums = arrays
        dormant, rounded, levels, shift_of_level = rule
        lanes = steps.size
        n_pairs, line = TILE * lanes, min(lanes, LINE)
        z, values, due = np.zeros(n_pairs, w.dtype), np.empty(n_pairs), np.empty(TILE, np.int64)
        slopes, lines = np.empty(TILES * lanes, w.dtype), np.empty(TILES * lanes // line, np.int64)
        wake, high_shift, low_shift = _wakes_and_shifts(steps, shifts)
        totals = np.zeros((4, n_pairs))
        quiet = TIRED if dormant else QUIET
        n_rows = indptr.size - 1
        for chunk in range(0, n_rows, TILES):
            n_lines = 0
            for first in range(chunk, min(chunk + TILES, n_rows), TILE):
                pairs = state[first * lanes : min(first + TILE, n_rows) * lanes]
                n_due = _due(pairs, wake, lanes, due)
                if n_due == 0:
                    continue
                at = (first - chunk) * lanes
                dot_rows(indptr, indices, data, first, due[:n_due], w, z, lanes)
                _slopes(loss, pairs, wake, z, values, slopes[at : at + pairs.size])
                _add_losses(values[: pairs.size], high_shift, low_shift, totals[HIGH], totals[LOW])
                _count(pairs, wake, values[: pairs.size], totals[VIOLATORS], totals[VISITED])
                _update_states(pairs, wake, quiet, values)
                if dormant:
                    _put_to_sleep(pairs, keys, steps, first_row + first)
                n_lines = _find_lines(slopes, at, at + pairs.size, line, lines, n_lines)
            add_lines((indptr, indices, data), chunk, lines[:n_lines], slopes, g, lanes, (levels, shift_of_level), rounded)
        for e in range(n_pairs):
            for number in range(4):
                sums[number, e % lanes] += totals[number, e]

    @njit
    def loss_pass(indptr, indices, data, w, state, shifts, sums):
        """Add a label's losses (high, low) to `sums` (4, 1); w (d) float64, `state` (n) bytes."""
        z, values, slopes, rows = np.empty(TILE, w.dtype), np.empty(TILE), np.empty(TILE), np.arange(TILE)
        wake, high_shift, low_shift = np.zeros(TILE, np.uint8), np.full(TILE, shifts[0, 0]), np.full(TILE, shifts[1, 0])
        totals = np.zeros((2, TILE))
        for first in range(0, state.size, TILE):
            pairs = state[first : first + TILE]
            dot_rows(indptr, indices, data, first, rows[: pairs.size], w, z, 1)
            _slopes(loss, pairs, wake, z, values, slopes)
            _add_losses(values[: pairs.size], high_shift, low_shift, totals[HIGH], totals[LOW])
        sums[HIGH, 0] += totals[HIGH].sum()
        sums[LOW, 0] += totals[LOW].sum()

    return panel_pass, loss_pass


@njit
def gradient_squares(w, g, lanes, decay, scale):
    """Return ‖decay w[:, l] + scale g[:, l]‖² of chunk c at [c, l]."""
    step, out = np.uint64(lanes), np.empty((-(-w.size // (CHUNK * lanes)), lanes))
    for chunk in range(out.shape[0]):
        total = out[chunk]
        total[:] = 0.0
        first, last = np.uint64(chunk * CHUNK * lanes), np.uint64(min((chunk + 1) * CHUNK * lanes, w.size))
        for row in range(first, last, step):
            for lane in range(step):
                value = decay * np.float64(w[row + lane]) + scale * g[row + lane]
                total[lane] += value * value
    return out


@njit
def step(w, g, lanes, eta, decay, scale):
    """w −= eta (decay w + scale g) per lane; return the new ‖w[:, l]‖² of chunk c at [c, l]."""
    stride, out = np.uint64(lanes), np.empty((-(-w.size // (CHUNK * lanes)), lanes))
    for chunk in range(out.shape[0]):
        total = out[chunk]
        total[:] = 0.0
        first, last = np.uint64(chunk * CHUNK * lanes), np.uint64(min((chunk + 1) * CHUNK * lanes, w.size))
        for row in range(first, last, stride):
            for lane in range(stride):
                old = np.float64(w[row + lane])
                w[row + lane] = old - eta[lane] * (decay * old + scale * g[row + lane])
                new = np.float64(w[row + lane])
                total[lane] += new * new
    return out


@njit
def copy_lanes(w, lanes, chosen, out):
    stride = np.uint64(lanes)
    for row in range(np.uint64(0), np.uint64(w.size), stride):
        for lane in range(stride):
            out[row + lane] = w[row + lane] if chosen[lane] else out[row + lane]
