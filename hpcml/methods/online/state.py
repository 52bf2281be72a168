"""The weights and counters of single-pass learners during their pass."""

from collections.abc import Callable, Iterator

import numpy as np

from hpcml.data.shard import Shard
from hpcml.errors import DataError
from hpcml.methods.online import kernels
from hpcml.methods.online.live import LiveFeatures
from hpcml.methods.online.options import LEARNERS, OnlineOptions

LINE = 64  # bytes of a cache line
GROWTH = 1.5  # growth of the weights when a stream brings more features: few copies, and at most a third is unused
LANES, COUNTERS, N_LANE_NUMBERS = "lanes", "counters", 5  # arrays of a label besides its weights


class LearnerState:
    """Learners of B labels on one rank.

    `weights` (rows + 1, a multiple of B) has the weights of the bias and of each feature (or slot, see LiveFeatures), and for voted
    learners the sums of averages; `lanes` (5, B) and `counters` (4, B) are the other numbers of each label, described in `kernels`;
    `n_features` is the width of the data, `n_rows` the number of rows so far.
    """

    def __init__(
        self, options: OnlineOptions, method: str, n_labels: int, n_features: int, labels: np.ndarray | None = None
    ) -> None:
        """`labels`: numbers below `n_labels`, default all; `n_features` may grow later."""
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
        # Arrays of a label with a number for the bias and each feature of the model.
        averages = (["sums", "stamps"] if self.method.winnow else ["sums"]) if options.voted else []
        self.array_names = [*self.method.weights, *averages]
        self._start = np.repeat([*self.method.weights.values(), *(0.0 for _ in averages)], self.n_lanes)
        # Up to 8 numbers are padded to a power of two, so that they lie in one cache line; more to a multiple of four.
        size = self._start.size
        padded = 1 << (size - 1).bit_length() if size <= LINE // 8 else -(-size // 4) * 4
        self._start = np.append(self._start, np.zeros(padded - size))
        self.weights, self._seen = _aligned_rows(self._start, 1), np.empty(0, dtype=np.uint8)
        self._grow(options.live_features or n_features)

    def _grow(self, n: int) -> None:
        if n >= self.weights.shape[0]:
            before, self.weights = self.weights, _aligned_rows(self._start, n + 1)
            self.weights[: before.shape[0]] = before
            self._seen = np.append(self._seen, np.zeros(n // 8 + 1 - self._seen.size, dtype=np.uint8))

    @property
    def seen(self) -> np.ndarray:
        return np.unpackbits(self._seen, bitorder="little")[: self.weights.shape[0] - 1].view(np.bool_)

    def learn(self, shard: Shard, rows: np.ndarray, largest: Callable[[np.ndarray], np.ndarray] = lambda values: values) -> None:
        """Learn from `rows` (positions in the shard), in order. Raises DataError at a negative value (Winnow).

        With live features, `largest` returns the maximum importance over all ranks, so this call is collective.
        """
        self.n_features = max(self.n_features, shard.n_features)
        o, csr = self.options, (shard.indptr, shard.indices, shard.data)
        parts: Iterator[tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]] = iter([(csr, rows, rows)])
        if self.live is not None:
            parts = self.live.map_rows(shard, rows, lambda: largest(self.importance()), self._reset_slots)
        elif self.n_features >= self.weights.shape[0]:
            self._grow(max(self.n_features, int(GROWTH * self.weights.shape[0])))
        kernel, parameters = (
            (kernels.learn_winnow, (o.alpha, o.beta, o.theta, o.margin))
            if self.method.winnow
            else (kernels.learn_additive, (o.epsilon, o.gamma, float(o.bias is not False)))
        )
        for arrays, positions, y_rows in parts:
            labels = (y_rows, *read_only(shard.y_indptr, shard.y_indices), self.lane_of)
            state = (self.weights, self.lanes, self.counters, self._seen)
            done = kernel(self.method.code, parameters, read_only(*arrays), positions, labels, o.voted, state)
            self.n_rows += done
            if done < positions.size:
                least = float(arrays[2][arrays[0][positions[done]] : arrays[0][positions[done] + 1]].min())
                raise DataError(
                    f"row {shard.first_row + int(y_rows[done])} (from 0) has the value {least:g}, but Winnow learners need "
                    "non-negative values; use perceptron, pa or romma, or shift the feature"
                )

    def _reset_slots(self, slots: np.ndarray) -> None:
        self.weights[slots + 1], seen = self._start, self.seen
        seen[slots] = False
        self._seen = np.packbits(np.append(seen, False), bitorder="little")

    def importance(self) -> np.ndarray:
        """Return |u − v| of every feature (or slot), the maximum over the labels (balanced learners only)."""
        out, n = np.zeros(self.weights.shape[0] - 1), self.n_lanes
        for lane in range(n):
            np.maximum(out, np.abs(self.weights[1:, lane] - self.weights[1:, n + lane]), out=out)
        return out

    def model_features(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the features in the model, ascending, and their rows in `weights`."""
        slots = np.flatnonzero(self.seen)
        if self.live is None:
            return slots, slots + 1
        numbers = self.live.numbers[slots]
        order = np.argsort(numbers)
        return numbers[order], slots[order] + 1

    def final_weights(self, lane: int, rows: np.ndarray) -> np.ndarray:
        """Return a label's weights (voted: their average) in these rows of `weights`.

        A Winnow's threshold is subtracted, so that the linear score (of a Winnow divided by the row sum) has the learner's sign.
        """
        views, right = self._views(lane), self.n_rows - self.counters[kernels.UPDATES, lane]  # Z = Σ c_i
        names = list(self.method.weights)
        out = views[names[0]][rows] - views[names[1]][rows] if len(names) == 2 else views[names[0]][rows]
        if self.options.voted and right > 0:
            clock, sums = self.lanes[kernels.CLOCK, lane], views["sums"][rows]
            out = (sums + out * (clock - views["stamps"][rows]) if self.method.winnow else out * clock - sums) / right
        else:
            out = out * self.lanes[kernels.SCALE, lane]
        return out - self.options.theta if self.method.winnow else out

    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """Return weights (B, n_features), 0 for features without a row, and bias (B), as `final_weights` gives them."""
        numbers, rows = self.model_features()
        W, bias, zero = np.zeros((self.n_lanes, self.n_features)), np.zeros(self.n_lanes), np.zeros(1, dtype=np.int64)
        for lane in range(self.n_lanes):
            W[lane, numbers] = self.final_weights(lane, rows)
            bias[lane] = self.final_weights(lane, zero)[0]
        return W, bias

    def state_arrays(self, lane: int, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the state of a label's pass: arrays at these rows of `weights`, lane numbers, counters."""
        arrays = {name: view[rows] for name, view in self._views(lane).items()}
        return arrays | {LANES: self.lanes[:, lane], COUNTERS: self.counters[:, lane]}

    def restore(
        self, labels: np.ndarray, n_rows: int, n_features: int, numbers: np.ndarray, read: Callable[[str, int], np.ndarray]
    ) -> None:
        """Restore what `model_features` and `state_arrays` returned; `read(name, label)` returns an array. Raises ValueError."""
        sound = numbers.dtype == np.int64 and numbers.ndim == 1 and bool((numbers[1:] > numbers[:-1]).all())
        if not sound or (numbers.size and not 0 <= numbers[0] <= numbers[-1] < n_features):
            raise ValueError("feature numbers are not ascending or out of range")
        if self.live is not None and numbers.size > self.live.size:
            raise ValueError("more features than --live-features")
        self.n_rows, self.n_features = n_rows, max(n_features, self.n_features)
        self.weights[1:], slots = self._start, numbers
        if self.live is not None:
            slots = self.live.restore(numbers)
        else:
            self._grow(self.n_features)
        seen = np.zeros(self.weights.shape[0], dtype=np.bool_)
        seen[slots] = True
        self._seen = np.packbits(seen, bitorder="little")
        rows = np.append(0, slots + 1)
        for lane, label in enumerate(labels.tolist()):
            for name, view in self._views(lane).items():
                view[rows] = read(name, label)
            self.lanes[:, lane], self.counters[:, lane] = read(LANES, label), read(COUNTERS, label)

    def _views(self, lane: int) -> dict[str, np.ndarray]:
        return {name: self.weights[:, lane + part * self.n_lanes] for part, name in enumerate(self.array_names)}


def _aligned_rows(row: np.ndarray, n: int) -> np.ndarray:
    raw = np.empty(n * row.nbytes + LINE, dtype=np.uint8)
    begin = -raw.ctypes.data % LINE
    out = raw[begin : begin + n * row.nbytes].view(np.float64).reshape(n, row.size)
    out[:] = row
    return out


def read_only(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return read-only views, so that kernels compile for one type, whether arrays are mapped or not."""
    views = tuple(array.view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views
