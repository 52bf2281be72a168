"""The learners of some labels in the middle of their pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hpcml.data.shard import Shard
from hpcml.errors import DataError
from hpcml.methods.online import kernels
from hpcml.methods.online.live import LiveFeatures
from hpcml.methods.online.options import LEARNERS, OnlineOptions

LINE = 64  # bytes of a cache line
GROWTH = 1.5  # of the room for features, when a stream brings more: copied a few times in all, and at most a third of it empty
LANES, COUNTERS, N_LANE_NUMBERS = "lanes", "counters", 5  # the arrays of a label beside those of its weights


class LearnerState:
    """Learners of B labels. Local; knows no MPI.

    `weights` (room + 1, a multiple of B) has those of the bias and of each feature (or slot, see LiveFeatures) and for voted
    learners the sums of averages; `lanes` (5, B) and `counters` (4, B) are the other numbers of each label, as `kernels` describes
    them; `n_features` is the width of the data, `n_rows` the number of rows so far.
    """

    def __init__(
        self, options: OnlineOptions, method: str, n_labels: int, n_features: int, labels: np.ndarray | None = None
    ) -> None:
        """For `labels` (below `n_labels`, default all) and `n_features` features, or more later."""
        self.options, self.method = options, LEARNERS[method]
        self.labels = np.arange(n_labels) if labels is None else np.asarray(labels)
        self.n_lanes = self.labels.size
        self.lane_of = np.full(n_labels, -1, dtype=np.int64)
        self.lane_of[self.labels] = np.arange(self.labels.size)
        self.n_features, self.n_rows = n_features, 0
        self.lanes = np.zeros((N_LANE_NUMBERS, self.n_lanes))
        self.lanes[[kernels.SCALE, kernels.UNIT]] = 1.0
        self.counters = np.zeros((4, self.n_lanes), dtype=np.int64)
        self.live = LiveFeatures(options.live_features, options.share) if options.live_features else None
        # The arrays of a label that have a number for the bias and each kept feature.
        averages = (["sums", "stamps"] if self.method.winnow else ["sums"]) if options.voted else []
        self.array_names = [*self.method.weights, *averages]
        self._start = np.repeat([*self.method.weights.values(), *(0.0 for _ in averages)], self.n_lanes)
        size = self._start.size  # next: up to 8 numbers lie in one cache line, more are taken by fours
        whole = 1 << (size - 1).bit_length() if size <= LINE // 8 else -(-size // 4) * 4
        self._start = np.append(self._start, np.zeros(whole - size))
        self.weights, self._seen = _filled(self._start, 1), np.empty(0, dtype=np.uint8)
        self._make_room(options.live_features or n_features)

    def _make_room(self, n: int) -> None:
        """Room for `n` features; what is there stays. Raises MemoryError."""
        if n >= self.weights.shape[0]:
            before, self.weights = self.weights, _filled(self._start, n + 1)
            self.weights[: before.shape[0]] = before
            self._seen = np.append(self._seen, np.zeros(n // 8 + 1 - self._seen.size, dtype=np.uint8))

    @property
    def seen(self) -> np.ndarray:
        """Which features (or slots) a row has had, (room) bool."""
        return np.unpackbits(self._seen, bitorder="little")[: self.weights.shape[0] - 1].view(np.bool_)

    def learn(self, shard: Shard, rows: np.ndarray, largest: Callable[[np.ndarray], np.ndarray] = lambda mine: mine) -> None:
        """Learn from `rows` (positions in the shard), in this order.

        With live features `largest` takes the largest importance over all ranks, so it is collective, and so is this. Raises
        DataError for a Winnow's negative value, once the rows before it are learnt.
        """
        self.n_features = max(self.n_features, shard.n_features)
        o, csr = self.options, (shard.indptr, shard.indices, shard.data)
        parts: Iterator[tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]] = iter([(csr, rows, rows)])
        if self.live is not None:
            parts = self.live.take(shard, rows, lambda: largest(self.importance()), self._forget)
        elif self.n_features >= self.weights.shape[0]:
            self._make_room(max(self.n_features, int(GROWTH * self.weights.shape[0])))
        family, given = (
            (kernels.learn_winnow, (o.alpha, o.beta, o.theta, o.margin))
            if self.method.winnow
            else (kernels.learn_additive, (o.epsilon, o.gamma, float(o.bias is not False)))
        )
        for arrays, some, y_rows in parts:
            labels = (y_rows, *frozen(shard.y_indptr, shard.y_indices), self.lane_of)
            state = (self.weights, self.lanes, self.counters, self._seen)
            done = family(self.method.code, given, frozen(*arrays), some, labels, o.voted, state)
            self.n_rows += done
            if done < some.size:
                least = float(arrays[2][arrays[0][some[done]] : arrays[0][some[done] + 1]].min())
                raise DataError(
                    f"row {shard.first_row + int(y_rows[done])} (from 0) has the value {least:g}, but the Winnow learners take no "
                    "negative values; use perceptron, pa or romma, or shift the feature"
                )

    def _forget(self, slots: np.ndarray) -> None:
        """Give these slots the weights of features that have never been seen."""
        self.weights[slots + 1], seen = self._start, self.seen
        seen[slots] = False
        self._seen = np.packbits(np.append(seen, False), bitorder="little")

    def importance(self) -> np.ndarray:
        """|u − v| of every feature (or slot), the largest over the labels. Balanced only."""
        out, n = np.zeros(self.weights.shape[0] - 1), self.n_lanes
        for lane in range(n):
            np.maximum(out, np.abs(self.weights[1:, lane] - self.weights[1:, n + lane]), out=out)
        return out

    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """The features of the model, ascending, without the bias, and their rows in `weights`."""
        slots = np.flatnonzero(self.seen)
        if self.live is None:
            return slots, slots + 1
        numbers = self.live.numbers[slots]
        order = np.argsort(numbers)
        return numbers[order], slots[order] + 1

    def final(self, lane: int, rows: np.ndarray) -> np.ndarray:
        """The weights of a label (voted: their average) in these rows, minus a Winnow's threshold:
        a linear score (a Winnow's over the row's sum) then has the sign of the learner's.
        """
        found, right = self._parts(lane), self.n_rows - self.counters[kernels.UPDATES, lane]  # Z = Σ c_i
        names = list(self.method.weights)
        out = found[names[0]][rows] - found[names[1]][rows] if len(names) == 2 else found[names[0]][rows]
        if self.options.voted and right > 0:  # else there is nothing to average
            clock, sums = self.lanes[kernels.CLOCK, lane], found["sums"][rows]
            out = (sums + out * (clock - found["stamps"][rows]) if self.method.winnow else out * clock - sums) / right
        else:
            out = out * self.lanes[kernels.SCALE, lane]
        return out - self.options.theta if self.method.winnow else out

    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """W (B, n_features), 0 for features without a row, and bias (B), as `final` gives them."""
        numbers, rows = self.kept()
        W, bias, zero = np.zeros((self.n_lanes, self.n_features)), np.zeros(self.n_lanes), np.zeros(1, dtype=np.int64)
        for lane in range(self.n_lanes):
            W[lane, numbers] = self.final(lane, rows)
            bias[lane] = self.final(lane, zero)[0]
        return W, bias

    def arrays_of(self, lane: int, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the state of a label's pass: arrays at these rows of `weights`, lane, counters."""
        found = {name: part[rows] for name, part in self._parts(lane).items()}
        return found | {LANES: self.lanes[:, lane], COUNTERS: self.counters[:, lane]}

    def restore(
        self, places: np.ndarray, n_rows: int, n_features: int, numbers: np.ndarray, read: Callable[[str, int], np.ndarray]
    ) -> None:
        """Put back what `kept` and `arrays_of` gave; `read` gives an array of the label at a place.

        Raises ValueError for features that a state cannot have.
        """
        sound = numbers.dtype == np.int64 and numbers.ndim == 1 and bool((numbers[1:] > numbers[:-1]).all())
        if not sound or (numbers.size and not 0 <= numbers[0] <= numbers[-1] < n_features):
            raise ValueError("its features are no ascending numbers")
        if self.live is not None and numbers.size > self.live.size:
            raise ValueError("it has more features than --live-features")
        self.n_rows, self.n_features = n_rows, max(n_features, self.n_features)
        self.weights[1:], slots = self._start, numbers
        if self.live is not None:
            slots = self.live.restore(numbers)
        else:
            self._make_room(self.n_features)
        seen = np.zeros(self.weights.shape[0], dtype=np.bool_)
        seen[slots] = True
        self._seen = np.packbits(seen, bitorder="little")
        rows = np.append(0, slots + 1)
        for lane, place in enumerate(places.tolist()):
            for name, part in self._parts(lane).items():
                part[rows] = read(name, place)
            self.lanes[:, lane], self.counters[:, lane] = read(LANES, place), read(COUNTERS, place)

    def _parts(self, lane: int) -> dict[str, np.ndarray]:
        """Views of the arrays of `array_names`."""
        return {name: self.weights[:, lane + part * self.n_lanes] for part, name in enumerate(self.array_names)}


def _filled(row: np.ndarray, n: int) -> np.ndarray:
    """A matrix of `n` such rows that begins with a cache line. Raises MemoryError."""
    raw = np.empty(n * row.nbytes + LINE, dtype=np.uint8)
    begin = -raw.ctypes.data % LINE
    out = raw[begin : begin + n * row.nbytes].view(np.float64).reshape(n, row.size)
    out[:] = row
    return out


def frozen(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Read-only views: mapped arrays or not, the kernel is compiled for one type."""
    views = tuple(array.view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views
