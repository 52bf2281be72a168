"""The time and memory of dual coordinate descent.

A panel of labels sweeps over the rows that any of them still looks at. A visit costs something for
the row, something for each of its values, and as much again where the weights of any label move. At
the end of a round come the certificate, over all values, and the weights made anew from the rows
that have a dual, and these sweep over all columns. How many visits and moves there are depends on
the data: it is measured by a pilot, or assumed to be as in the corpus that
`hpcml convert synthetic text` makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from hpcml.data.compact import CompactRows
from hpcml.methods.dual.alone import VALUES_PER_POSITIVE
from hpcml.methods.dual.dual import DualSolver
from hpcml.methods.dual.label import NO_POSITIVES, State, Training
from hpcml.methods.dual.lanes import ORDER_BYTES
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.rounds import FULL_PASSES, SWEEPS
from hpcml.methods.dual.train import METHOD, bytes_between_rounds
from hpcml.methods.forecast import Cluster, Forecast, Generated, Machine, Measured, NoForecast, Sizes, Timer, sent
from hpcml.methods.linear import forecast as linear
from hpcml.methods.linear.layout import LANES
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import Finished
from hpcml.methods.linear.warm_up import warm_up
from hpcml.options import flag_of
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

Result = TypeVar("Result")

START_PASSES = 5.0  # of the label that no row has, with the default tolerance; a pilot counts them for others
REPEATS = 6  # of a measurement, whose least counts: what another process does only adds to it
OF_PATH = ("loss", "lam", "bias", "dual_tol", "max_gap", "positive_weight", "max_steps")  # options that change the number of passes
STEEPEST = 0.5  # power of the number of rows by which a pilot's figures are carried over to all rows at most
ASSUMED = "convert synthetic text, 100,000 rows, 2,000 labels"
ALONE = 0.15, 0.5  # of a panel's time: a label that is trained alone, and what it takes more if as many rows have it as may
# Of a panel: the share of the rows that have a label; over all rounds, in passes over the rows, values visited, those of rows that
# moved, and those of rows that have a dual when weights are made anew; and rounds.
TABLE = np.array(
    [
        (1.6e-4, 4.7, 0.7, 0.17, 1.0),
        (4.6e-4, 5.7, 1.6, 0.33, 1.0),
        (1.2e-3, 7.0, 3.1, 0.54, 1.0),
        (5.8e-3, 10.5, 6.9, 0.85, 1.0),
        (1.3e-1, 13.8, 12.5, 1.0, 1.0),
    ]
)


@dataclass(frozen=True)
class Work:
    """A panel's work by the share of rows that have a label: a table as `TABLE`, and the power
    of the rows by which it grows.
    """

    table: np.ndarray
    powers: np.ndarray
    n_rows: int  # of the table
    source: str
    n_values: int = 0  # of the rows of a pilot
    n_columns: int = 0
    seconds: float = math.nan  # that its panels took, those of `table` together; NaN without a pilot

    def at(self, shares: np.ndarray, n_rows: int) -> np.ndarray:
        """(panels × 4) what `TABLE` says of panels with these mean shares."""
        grown = self.table[:, 1:] * (n_rows / self.n_rows) ** self.powers
        x = np.log(self.table[:, 0])
        return np.stack([np.interp(np.log(shares), x, column) for column in grown.T], axis=1)


DEFAULT = Work(TABLE, np.zeros((1, 4)), 100_000, ASSUMED)


class DualForecaster:
    """See `hpcml.methods.forecast.Forecaster`."""

    def measure(self, made: Generated, timer: Timer) -> Measured:
        """Constants at one number of columns."""
        rows, fewer = made.rows, made.fewer
        still, moving = _Bench(rows, still=True), _Bench(rows, still=False)
        read, visit, _ = still.passes(timer)
        write, move, moved = moving.passes(timer)
        ends, ends_still, begin = moving.ends(timer), still.ends_at_zero(timer), moving.begin(timer)
        of_few = _Bench(fewer, still=True)
        few, begin_few = of_few.ends_at_zero(timer), of_few.begin(timer)
        n, n_few, d = rows.data.size, fewer.data.size, rows.n_columns
        look = max(0.0, ends_still - few) / (n - n_few)
        per_row = max(0.0, begin - begin_few) / (rows.n_global - fewer.n_global)
        return {
            "dual.row": (rows.n_global, visit),
            "dual.move": (rows.n_global, max(0.0, move - visit) / moved),
            "dual.read": (made.rows.n_columns, read),
            "dual.write": (made.rows.n_columns, max(0.0, write - read) / moved),
            "dual.look": (made.rows.n_columns, look),
            "dual.add": (made.rows.n_columns, max(0.0, ends - ends_still) / n),
            "dual.column": (d, max(0.0, few - n_few * look) / d),
            "dual.begin_row": (rows.n_global, per_row),
            "dual.begin_column": (d, max(0.0, begin_few - fewer.n_global * per_row) / d),
        }

    def pilot(self, samples: Sequence[CompactRows], options: DualOptions, timer: Timer) -> Work:
        """Panels of labels of five frequencies on each sample, the smallest first."""
        samples = linear.with_labels(samples)
        found = [np.array(list(_panels_of(rows, options, timer))) for rows in samples[-2:]]
        tables, seconds = [each[:, :-1] for each in found], float(found[-1][:, -1].sum())
        last, n_rows = tables[-1], samples[-1].n_global
        powers = np.zeros((last.shape[0], 4))
        if len(samples) > 1:
            before = Work(tables[-2], np.zeros((1, 4)), 1, "").at(last[:, 0], 1)
            ratio = np.log(np.maximum(last[:, 1:], 1e-3) / np.maximum(before, 1e-3))
            powers = np.clip(ratio / math.log(n_rows / samples[-2].n_global), -STEEPEST, STEEPEST)
        order = np.argsort(last[:, 0])
        sizes = (samples[-1].data.size, samples[-1].n_columns)
        return Work(last[order], powers[order], n_rows, f"a pilot on {n_rows:,} rows", *sizes, seconds)

    def forecast(self, sizes: Sizes, cluster: Cluster, options: DualOptions, machine: Machine, pilot: Work | None) -> Forecast:
        """Raises NoForecast."""
        if options.precision != "single":
            raise NoForecast(f"no time model for dual with --precision {options.precision}: constants are of single precision")
        layout = linear.layout_of(METHOD, sizes, cluster, options)
        found = linear.begin(METHOD, sizes, cluster, options, machine, layout)
        found.own_bytes["orders of rows"] = min(ORDER_BYTES, 4 * sizes.n_rows // layout.shards * 3 * SWEEPS)  # of two rounds
        work, n = pilot or DEFAULT, sizes.n_values + sizes.n_rows * bool(options.bias)
        usual = DualOptions()
        other = [flag_of(name) for name in OF_PATH if getattr(options, name) != getattr(usual, name)]
        if pilot is None and other:
            raise NoForecast(f"no time model for dual with --{other[0]}, unless the data are at hand: add --pilot")
        (found.measured if pilot else found.assumed).append(f"passes of a panel over the rows: as in {work.source}")
        slowest, passes, pace = 0.0, 0.0, self._pace(machine, work)
        if pilot:
            found.measured.append(f"panels of the pilot took {pace:.2f} of what the machine's constants say: so do all")
        few, alone, may_be = pilot is not None, False, layout.shards == 1 and options.loss != "logistic"
        most_alone = n // VALUES_PER_POSITIVE if may_be else 0
        for number in range(layout.n_groups):
            shares = np.array([each.mean() for each in linear.panels(sizes, layout, number)]) / sizes.n_rows
            if not shares.size:
                continue
            positives, busy = shares * sizes.n_rows, cluster.ranks_per_node
            counts = work.at(shares, sizes.n_rows) * _of_a_panel(positives, most_alone)[:, None]
            alone |= bool((positives <= most_alone).any())
            rows, values = sizes.n_rows / layout.shards, n / layout.shards
            start = np.array([[START_PASSES, 0.0, 0.0, 0.0]])
            seconds = pace * _seconds(np.concatenate([counts, start]), rows, values, sizes.n_rows, sizes.n_columns, machine, busy)
            few &= bool((counts[:, 3] < 2).all())
            if seconds >= slowest:
                slowest, passes = seconds, float(counts[:, 0].sum())
        found.seconds["train"] = slowest
        if alone:
            found.assumed.append(
                f"labels of at most {most_alone} rows, each trained alone: {ALONE[0]} of the time of a panel, and more"
            )
        if few:  # waiting labels are trained as soon as they fill a panel
            arguments = (sizes.n_rows, sizes.n_columns, layout.n_lanes, layout.shards, layout.weight_bytes)
            found.own_bytes[linear.STATE] -= bytes_between_rounds(*arguments) // 2
            found.assumed.append("labels that wait for another round are no more than a panel has, for few do in the pilot")
        if layout.shards > 1:
            weights = LANES * sizes.n_columns
            certificate = 8 * weights
            found.sent_bytes = sent(layout.shards, passes * 4 * weights + certificate)
            found.seconds["messages"] = passes * cluster.exchange(layout.shards, 4 * weights)
            found.assumed.append("as many passes with --ranks-per-group as without; CoCoA+ takes more")
        return found

    def _pace(self, machine: Machine, work: Work) -> float:
        """The seconds of a pilot's panels divided by those that the machine's constants give; 1
        without a pilot.
        """
        if math.isnan(work.seconds):
            return 1.0
        return work.seconds / _seconds(work.table[:, 1:], work.n_rows, work.n_values, work.n_rows, work.n_columns, machine, 1)


def _of_a_panel(positives: np.ndarray, most_alone: int) -> np.ndarray:
    """The time of panels with so many rows a label, as a share of what a panel takes: less than 1
    if the labels are trained alone.
    """
    return np.where(positives <= most_alone, ALONE[0] + ALONE[1] * positives / max(1, most_alone), 1.0)


def _seconds(counts: np.ndarray, rows: float, values: float, m: int, d: int, machine: Machine, busy: int) -> float:
    """Of panels with these counts (panels × 4, as `TABLE`) on a rank with so many of the `m`
    rows, and of their values.
    """

    def cost(name: str, at: float) -> float:
        return machine(f"dual.{name}", at, busy)

    visited, moved, held, rounds = counts.T
    per_row = visited * cost("row", m) + moved * cost("move", m)
    per_value = visited * cost("read", d) + moved * cost("write", d)
    certificates = rounds * cost("look", d) + held * cost("add", d)
    fixed = rounds * (d * (cost("column", d) + cost("begin_column", d)) + rows * cost("begin_row", m))
    return float((rows * per_row + values * (per_value + certificates) + fixed).sum())


class _Bench:
    """A panel of labels whose duals rest, or move with every visit."""

    def __init__(self, rows: CompactRows, still: bool) -> None:
        # with so large a λ every dual is at its bound after one visit, and stays there
        options = DualOptions(loss="hinge", lam="1e4", bias=False) if still else DualOptions(loss="squared-hinge", bias=False)
        self.rows = rows = replace(rows, bias=True)  # the last column is the intercept's, which the end of a round moves
        risk = Risk(rows, options, Profile())
        labels = np.arange(LANES)
        self.solver = DualSolver(risk, labels, LANES, replace(options, max_steps=1 << 30))
        self.lanes = [Training(k, NO_POSITIVES if still else k, math.inf, exact=True) for k in range(LANES)]
        self.costs = [self.solver.cost_of(label.number) for label in self.lanes]
        self.solver.begin(self.lanes, self.costs)
        self.sizes = np.diff(rows.indptr)
        self.solver.rounds.begin(True)
        self.solver.rounds.run_pass()
        for _ in range(2):
            self._visit(np.ones(rows.n_global, dtype=bool))

    def _visit(self, some: np.ndarray) -> None:
        self.solver.active[:] = np.where(some, self.solver.all_lanes, 0)
        self.solver.visit(1)

    def passes(self, timer: Timer) -> tuple[float, float, float]:
        """Seconds of a value and of a row, from passes over short and long rows; the share of
        the values in rows that moved.
        """
        short, long = (self.sizes == size for size in (self.sizes.min(), self.sizes.max()))
        few = min(timer(partial(self._visit, short)) for _ in range(REPEATS)) / short.sum()
        before = self.solver.alpha.copy()
        many = min(timer(partial(self._visit, long)) for _ in range(REPEATS)) / long.sum()
        moved = (self.solver.alpha != before).reshape(self.sizes.size, -1).any(axis=1)
        value = max(0.0, (many - few) / (self.sizes.max() - self.sizes.min()))
        return value, max(0.0, few - value * self.sizes.min()), max(1e-3, float(moved[long].mean()))

    def begin(self, timer: Timer) -> float:
        """Seconds of beginning a panel at the common start, and of seeking its support vectors
        after each pass over all rows.
        """
        dtype = self.solver.risk.weight_type
        start = State(np.zeros(self.rows.n_columns, dtype), np.zeros(self.rows.n_global, dtype))

        def begin() -> None:
            self.solver.begin(self.lanes, self.costs, start)
            for _ in range(FULL_PASSES):
                self.solver.look_at_support(self.solver.all_lanes)

        return min(timer(begin) for _ in range(REPEATS))

    def ends(self, timer: Timer) -> float:
        """Seconds of the end of a round."""
        return min(timer(self.solver.certify) for _ in range(REPEATS))

    def ends_at_zero(self, timer: Timer) -> float:
        """The same where no row has a dual."""
        self.solver.alpha[:] = 0.0
        return self.ends(timer)


class _Counted(DualSolver):
    """Counts what its panels do: values visited, those of rows that moved and of rows that have
    a dual, rounds; and seconds. No label is trained alone.
    """

    most_alone = 0

    def __init__(self, risk: Risk, labels: np.ndarray, options: DualOptions, timer: Timer) -> None:
        super().__init__(risk, labels, LANES, options)
        self.timer, self.sizes = timer, np.diff(risk.rows.indptr)
        self.n_lanes_at_first = LANES  # of the first round
        self.clear()

    def clear(self) -> None:
        """Begin to count."""
        self.total, self.seconds = np.zeros(4), 0.0

    def _timed(self, call: Callable[[], Result]) -> Result:
        """The result of the call; its seconds count by the share of the first round's lanes that
        are still there.
        """
        found = list[Result]()
        seconds = self.timer(lambda: found.append(call()))
        self.seconds += self._share_of_lanes * seconds
        return found[0]

    @property
    def _share_of_lanes(self) -> float:
        return len(self.lanes) / self.n_lanes_at_first

    def _values(self, rows: np.ndarray) -> float:
        """Of rows (n, or n lanes flat) for which something is true."""
        return self._share_of_lanes * float(self.sizes[rows.reshape(self.sizes.size, -1).any(axis=1)].sum())

    def begin(self, lanes: list[Training], costs: list[np.ndarray], start: State | None = None, number: int = 0) -> None:
        self.lanes = lanes
        self.n_lanes_at_first = len(lanes) if number == 0 else self.n_lanes_at_first
        self._timed(partial(super().begin, lanes, costs, start, number))

    def visit(self, number: int, full: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.total[0] += self._values(self.active != 0)
        before = self.alpha.copy()
        found = self._timed(partial(super().visit, number, full))
        self.total[1] += self._values(self.alpha != before)
        return found

    def certify(self) -> tuple[list[Finished], list[Training]]:
        self.total[2:] += self._values(self.alpha != 0), self._share_of_lanes
        return self._timed(super().certify)


def _panels_of(rows: CompactRows, options: DualOptions, timer: Timer) -> Iterator[tuple[float, ...]]:
    """Lines of a `TABLE`, of panels of the most frequent labels to the rarest, and the seconds
    that each has taken.
    """
    labels = linear.trainable(rows)
    solver = _Counted(Risk(rows, options, Profile()), labels, options, timer)
    warm_up(DualSolver, solver.risk, options)
    firsts = sorted({int(place * max(0, labels.size - LANES)) for place in np.linspace(0, 1, 5) ** 2})
    for first in firsts:
        places = range(first, min(first + LANES, labels.size))
        for _ in solver.solve(places, NEVER):
            if all(label.number == NO_POSITIVES for label in solver.lanes):  # with which all labels begin
                solver.clear()
        mean = rows.n_positive[labels[list(places)]].mean() / rows.n_global
        yield (float(mean), *(solver.total[:3] / rows.data.size), float(solver.total[3]), solver.seconds)
        solver.clear()


FORECAST = DualForecaster()
