"""`hpcml train psbml --seeds N`: runs of several seeds, divided among the ranks, compare the chosen
cycles with cycle 0.

The run of a seed is whole on one rank. A cycle that was chosen by some rows is better on them than
it is, so others compare: rows of another split, or a second part of the training rows that is set
aside. The file of each run that is done is kept, so that a continued job does those that are
missing.
"""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.classes import read_classes
from hpcml.data.shard import read_rows
from hpcml.errors import ConfigError, DataError, HpcmlError, Interrupted
from hpcml.files.table import read_csv, table, write_table
from hpcml.log import Progress, joined, plural
from hpcml.methods.psbml.pocket import Pocket, write_pocket
from hpcml.methods.psbml.problem import TorusProblem
from hpcml.methods.psbml.run import write_history
from hpcml.methods.psbml.selection import TEST, spread
from hpcml.methods.psbml.snapshot import validate
from hpcml.methods.psbml.synchronous import cycles_of
from hpcml.methods.psbml.torus import Placement
from hpcml.run.driver import Driver, Job
from hpcml.run.folder import FINISHED, SEEDS, RunConfig, RunFolder
from hpcml.run.session import Target
from hpcml.run.stop import Stop
from hpcml.signals import StopSignals


class SeedLine(NamedTuple):
    """A line of seeds.csv. What begins with `base` is of cycle 0."""

    seed: int
    cycle: int  # that the validation rows chose
    validation_error: float
    base_validation_error: float
    error: float  # on the rows that compare, as are the others below
    base_error: float
    auc: float  # NaN for more than two classes
    base_auc: float
    distinct_rows: int  # left in the chosen cycle
    seconds: float

    @classmethod
    def read(cls, line: dict[str, str]) -> SeedLine:
        """A line of the file. Raises KeyError, ValueError, TypeError."""
        whole = {"seed", "cycle", "distinct_rows"}
        return cls._make(int(line[name]) if name in whole else float(line[name]) for name in cls._fields)


class Paired(NamedTuple):
    """A paired two-sided t-test of some runs' values against those of cycle 0."""

    base: float  # means and standard deviations
    base_deviation: float
    chosen: float
    chosen_deviation: float
    difference: float
    difference_deviation: float
    p: float  # NaN if there is no difference in any run
    p_corrected: float  # after Nadeau & Bengio 2003, for runs that share rows; NaN where it does not fit


def paired(base: np.ndarray, chosen: np.ndarray, test_ratio: float) -> Paired:
    """Compare n runs. `test_ratio`: test rows per training row if drawn anew each time, or NaN."""
    from scipy.stats import t, ttest_rel

    of = [value for values in (base, chosen, chosen - base) for value in (float(values.mean()), float(values.std(ddof=1)))]
    if not np.any(chosen != base) or np.isnan(chosen - base).any():
        return Paired._make([*of, np.nan, np.nan])
    with np.errstate(divide="ignore"):
        statistic = of[4] / (of[5] * np.sqrt(1 / base.size + test_ratio))
    p, corrected = ttest_rel(chosen, base).pvalue, 2 * t.sf(abs(statistic), base.size - 1)
    return Paired._make([*of, float(p), float(corrected)])


@dataclass(frozen=True)
class SeedsReport:
    """The outcomes of the runs of several seeds."""

    model: Path
    lines: list[SeedLine]
    n_test: int  # rows that compare, in each run
    test_ratio: float  # of them per row to train on; NaN if they are the same in all runs
    seconds: float

    @cached_property
    def error(self) -> Paired:
        """The shares of the rows that are misclassified."""
        return self._paired("base_error", "error")

    @cached_property
    def auc(self) -> Paired:
        """The areas under the ROC curve; NaN for more than two classes."""
        return self._paired("base_auc", "auc")

    def _paired(self, base: str, chosen: str) -> Paired:
        before, after = (np.array([getattr(line, name) for line in self.lines]) for name in (base, chosen))
        return paired(before, after, self.test_ratio)

    def __str__(self) -> str:
        with_area = not np.isnan(self.auc.base)
        corrected = not np.isnan(self.test_ratio)
        rows = [["of 100, mean ± deviation", "cycle 0", "chosen cycle", "difference", "p", *["p, corrected"] * corrected]]
        for name, of in [("wrong rows", self.error), *[("area under the ROC curve", self.auc)] * with_area]:
            pairs = [f"{100 * mean:.2f} ± {100 * deviation:.2f}" for mean, deviation in zip(of[:4:2], of[1:4:2], strict=True)]
            pairs.append(f"{100 * of.difference:+.2f} ± {100 * of.difference_deviation:.2f}")
            rows.append([name, *pairs, *(("-" if np.isnan(p) else f"{p:.2g}") for p in of[6 : 7 + corrected])])
        kept = sum(line.cycle == 0 for line in self.lines)
        return joined(
            [
                f"trained {plural(len(self.lines), 'seed')} in {self.seconds:.2f} s; "
                f"to compare: {plural(self.n_test, 'row')} that neither trained "
                "nor chose",
                *table(rows),
                f"no cycle was better than cycle 0 for the validation rows: {kept} of {plural(len(self.lines), 'seed')}",
                f"model of seed {self.lines[0].seed}: {self.model}",
            ]
        )


class SeedRuns(Job):
    """The runs of the seeds, in a run folder. Making one is local."""

    doing = "running a seed"
    n_done = 0  # of the runs of this rank

    def __init__(self, problem: TorusProblem, folder: RunFolder, rows: np.ndarray, of: np.ndarray) -> None:
        """`rows` (of the file) and their classes compare; none: each run sets its own aside."""
        self.problem, self.folder, self.rows, self.of = problem, folder, rows, of
        first = problem.options.seed
        self.seeds = range(first, first + (problem.options.seeds or 0))
        self.origin = hashlib.sha256(problem.origin + rows.tobytes() + of.tobytes()).hexdigest()

    def part(self, seed: int) -> Path:
        """The file of a run that is done."""
        return self.folder.checkpoints / f"seed-{seed}.csv"

    def done(self) -> dict[int, SeedLine]:
        """The runs that are done. Local; raises OSError, DataError (other data, damage)."""
        found = {}
        for seed in self.seeds:
            if (path := self.part(seed)).exists():
                try:
                    (line,) = read_csv(path)
                    found[seed], origin = SeedLine.read(line), line["origin"]
                except (KeyError, TypeError, ValueError, csv.Error):
                    raise DataError(f"{path}: damaged; delete it, and resume: the run of seed {seed} is then done again") from None
                if origin != self.origin:
                    raise DataError(f"{self.folder.path}: this run was started on other data; resume with the same file")
        return found

    def finish(self, complete: bool) -> int:
        """How many runs are done; if they are complete, the folder is. Local; raises as `done`."""
        done = self.done()
        if complete:
            write_table(self.folder.path / SEEDS, [SeedLine._fields, *(done[seed] for seed in self.seeds)])
            self.folder.model_part.replace(self.folder.model)
            self.folder.drop_checkpoints()
        return len(done)

    def solve(self, seeds: Sequence[int], stop: Stop) -> Generator[list[int], None, None]:
        """Runs in turn, some cycles at a time. Raises Stopped, ConfigError, DataError, OSError."""
        for seed in seeds:
            yield from self._solve(seed, stop)
            self.n_done += 1
            yield [seed]

    def _solve(self, seed: int, stop: Stop) -> Generator[list[int], None, None]:
        """The run of one seed, and its file. Local."""
        begin, first = time.monotonic(), self.problem
        options, placement = replace(first.options, seed=seed), Placement(first.placement.torus, 1, 0)
        classes = first.classes
        start = spread(classes.of, classes.rows, first.n_nodes, options.validation_share, seed, options.parts_aside)
        problem = replace(first, comm=mpi.self_comm(), start=start, placement=placement, options=options)
        base = None
        for assessor in cycles_of(problem, stop.look):
            base = base or assessor.pocket  # on one rank the first one is of cycle 0 alone
            yield []
        assert base is not None
        pocket, judged = assessor.pocket, self.judge(problem, [assessor.pocket, base])
        distinct_rows = int(assessor.history[pocket.cycle][3])
        values = [pocket.error, base.error, *(judged[who][what] for what in (0, 1) for who in (0, 1))]
        line = SeedLine._make([seed, pocket.cycle, *values, distinct_rows, time.monotonic() - begin])
        if seed == self.seeds[0]:
            write_pocket(self.folder.model_part, problem, pocket, assessor.base)
            write_history(self.folder.history, assessor.history)
        write_table(self.part(seed), [(*SeedLine._fields, "origin"), (*line, self.origin)])

    def judge(self, problem: TorusProblem, pockets: list[Pocket]) -> list[tuple[float, float]]:
        """Error and AUC of classifiers on the rows that compare. Raises DataError, OSError."""
        aside = np.flatnonzero(problem.start == TEST)
        rows, of = (self.rows, self.of) if self.rows.size else (problem.classes.rows[aside], problem.classes.of[aside])
        matrix = problem.prepared(read_rows(problem.dataset, rows, problem.kept_dense))
        return [validate(pocket.classifier, matrix, of, problem.classes.n_classes, pocket.threshold)[:2] for pocket in pockets]


def train_seeds(problem: TorusProblem, folder: RunFolder, target: Target, signals: StopSignals) -> SeedsReport:
    """Collective. The runs of all seeds into the folder; `problem` is the first one's.

    Raises ConfigError, DataError; Interrupted after a signal or the time limit.
    """
    comm, options, log = problem.comm, problem.options, folder.log
    rows, of = _test_rows(problem)
    runs = SeedRuns(problem, folder, rows, of)
    n_test = rows.size or int(np.count_nonzero(problem.start == TEST))
    ratio = np.nan if rows.size else n_test / int(np.count_nonzero(problem.start >= 0))
    if folder.prepare(RunConfig("psbml", problem.dataset.path.resolve(), options), target) == FINISHED:
        log(f"{folder.path} is finished already; nothing to resume")
        return SeedsReport(folder.model, _read(comm, folder), n_test, ratio, 0.0)
    with mpi.agreed(comm, f"reading {folder.checkpoints}"):
        done = runs.done() if comm.rank == 0 else {}
    done = comm.bcast(done)
    missing = [seed for seed in runs.seeds if seed not in done]
    log(f"training {problem.about}, {n_test:,} to compare; {len(missing)} of {plural(len(runs.seeds), 'seed')}, ranks: {comm.size}")
    begin, driver = time.monotonic(), Driver(comm, mpi.self_comm(), options, signals)
    try:
        with closing(Progress(log, "seeds", len(missing))) as progress:
            stopped = driver.run(runs.solve(missing[comm.rank :: comm.size], driver.stop), runs, progress)
    except HpcmlError:
        if comm.rank == 0 and not target.resume and not any(runs.part(seed).exists() for seed in runs.seeds):
            folder.discard()  # it could not even begin
        raise
    with mpi.agreed(comm, f"finishing {folder.path}"):
        n_done = runs.finish(not stopped) if comm.rank == 0 else 0
    if stopped:
        raise Interrupted(f"{stopped}: continue with --resume ({comm.bcast(n_done)} of {plural(len(runs.seeds), 'seed')} done)")
    return SeedsReport(folder.model, _read(comm, folder), n_test, ratio, time.monotonic() - begin)


def _test_rows(problem: TorusProblem) -> tuple[np.ndarray, np.ndarray]:
    """Collective. The rows that compare and their classes, or none. Raises ConfigError."""
    split = problem.options.test_split
    if split is None:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    classes = read_classes(problem.comm, problem.dataset, split, problem.options.label)
    n_shared = int(np.isin(classes.rows, problem.classes.rows, assume_unique=True).sum())
    if n_shared:
        raise ConfigError(
            f"--test-split {split}: {n_shared:,} of its {classes.rows.size:,} rows are in the split {problem.split} to train on; "
            "name one that shares no row with it, or leave it out"
        )
    return classes.rows, classes.of


def _read(comm: mpi.Comm, folder: RunFolder) -> list[SeedLine]:
    """Collective over `comm`. The lines of seeds.csv. Raises DataError."""
    lines: list[SeedLine] = []
    with mpi.agreed(comm, f"reading {folder.path / SEEDS}"):
        if comm.rank == 0:
            try:
                lines = [SeedLine.read(line) for line in read_csv(folder.path / SEEDS)]
            except (KeyError, TypeError, ValueError, csv.Error):
                raise DataError(f"{folder.path / SEEDS}: damaged; train again with --force") from None
    lines = comm.bcast(lines)
    return lines
