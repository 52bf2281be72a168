"""One round of choosing: every label is trained outside each fold at each setting, and its scores of the folds are summarised.

The labels are scattered over the ranks, each of which has all rows. A rank takes some labels at a time through all folds, so
that the scores of these labels are all that it holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.errors import NonFiniteError
from hpcml.evaluation.decision import Summary, summarise
from hpcml.evaluation.ranking import auc, average_precision
from hpcml.methods.linear.polling import Limits, PolledRun
from hpcml.methods.linear.settings import Path
from hpcml.methods.linear.watch import Stopped
from hpcml.signals import StopSignals
from hpcml.tuning import kernels
from hpcml.tuning.folds import Fold
from hpcml.tuning.records import Records

TOGETHER = 16  # labels that go through the folds together, at most
UNTRAINED = -1.0  # the score of every row, for a label that no row outside the fold has


def best_f1(summary: Summary) -> float:
    """F1 at the best threshold for these rows."""
    ranking = summary.ranking()
    return float(np.max(2.0 * np.cumsum(ranking.relevant) / (ranking.greater + ranking.equal + ranking.n_positive)))


MEASURE: dict[str, Callable[[Summary], float]] = {
    "map": lambda summary: average_precision(summary.ranking()),
    "auc": lambda summary: auc(summary.ranking()),
    "f1": best_f1,
}


class Crossed(NamedTuple):
    """A label (its place in the run) whose rows all have scores: at each setting the measure and the summary."""

    place: int
    scores: list[float]
    summaries: list[Summary]


class CrossFits:
    """The labels of a rank (`hpcml.methods.linear.polling.Work`). Local."""

    def __init__(
        self,
        rows: CompactRows,
        folds: Sequence[Fold],
        paths: Sequence[Path],
        labels: np.ndarray,
        n_settings: int,
        by: str,
        room: float,
    ) -> None:
        """`labels` are the numbers in the data of all labels of the run; `room` is how many bytes the scores may take."""
        self.rows, self.folds, self.paths, self.labels = rows, folds, paths, labels
        self.n_settings, self.measure = n_settings, MEASURE[by]
        self.together = max(1, min(TOGETHER, int(room / (4 * n_settings * rows.n_global))))
        self.waiting: deque[int] = deque()
        self.current: list[int] = []
        self.fold = 0
        self.scores = np.zeros((0, 0, 0), np.float32)
        self.begins = np.cumsum([0, *(fold.numbers.size for fold in folds)])
        self.place = np.empty(rows.n_global, np.int64)  # of each row among the scores
        self.place[np.concatenate([fold.numbers for fold in folds])] = np.arange(rows.n_global)

    @property
    def busy(self) -> bool:
        """Whether there is anything left to do."""
        return bool(self.waiting or self.current)

    def settle(self) -> None:
        """Nothing is ever on its way."""

    def warm_up(self) -> None:
        """Compile the kernels. Local."""
        self.paths[0].warm_up()
        fold = self.folds[0]
        kernels.score(fold.held_out[0][:1], *fold.held_out[1:], np.zeros(0, np.float32), 1, np.zeros((1, 0), np.float32))
        summarise(np.arange(3.0, dtype=np.float32), np.array([2]))

    def turn(self, seconds: float) -> list[Crossed]:
        """One fold of some labels; those that have been through all. Raises Stopped: these labels are to begin anew."""
        if not self.current:
            self.current = [self.waiting.popleft() for _ in range(min(self.together, len(self.waiting)))]
            self.fold = 0
            self.scores = np.full((len(self.current), self.n_settings, self.rows.n_global), UNTRAINED, np.float32)
        try:
            self._score_fold()
        except Stopped:
            self.waiting.extendleft(reversed(self.current))
            self.current = []
            raise
        self.fold += 1
        if self.fold < len(self.folds):
            return []
        done, self.current = self.current, []
        return [self._crossed(place, scores) for place, scores in zip(done, self.scores, strict=True)]

    def _score_fold(self) -> None:
        """Train outside the fold, and score its rows."""
        held_out = self.folds[self.fold].held_out
        some = slice(int(self.begins[self.fold]), int(self.begins[self.fold + 1]))
        for fitted in self.paths[self.fold].panels(self.labels[self.current]):
            out = np.empty((fitted.width, held_out[0].size - 1), np.float32)
            kernels.score(*held_out, fitted.w, fitted.width, out)
            for lane, (place, setting) in enumerate(zip(fitted.places.tolist(), fitted.settings.tolist(), strict=True)):
                if setting >= 0:
                    np.add(out[lane], np.float32(fitted.intercepts[lane]), out=self.scores[place, setting, some])

    def _crossed(self, place: int, scores: np.ndarray) -> Crossed:
        """The summaries of a label's scores (n_settings × n). Raises NonFiniteError."""
        number = int(self.labels[place])
        positives = self.place[self.rows.rows_of(number)]
        if not np.isfinite(scores).all():
            raise NonFiniteError(f"the scores of label number {number} are not finite; scale the data or choose another --lambda")
        summaries = [summarise(of_setting, positives) for of_setting in scores]
        return Crossed(place, [self.measure(summary) for summary in summaries], summaries)


class CrossRun(PolledRun):
    """A round over all ranks: what each has done goes into the records. Making one is local."""

    def __init__(
        self,
        comm: mpi.Comm,
        rows: CompactRows,
        records: Records,
        known: np.ndarray,
        limits: Limits,
        signals: StopSignals,
        spent: float,
    ) -> None:
        super().__init__(comm, rows, known.size, limits, signals, "turn", spent)
        self.records = records
        if comm.rank == 0:
            self.done |= known

    @mpi.collective
    def _keep(self, finished: list[Crossed]) -> None:
        """Collective over the group. Write the labels that are done."""
        if finished:
            with mpi.agreed(self.rows.comm, f"writing {self.records.path}"):
                for label in finished:
                    self.records.write(label.place, label.scores, label.summaries)
                    self.done[label.place] = 1

    @mpi.collective
    def save(self, work: CrossFits) -> None:
        """Collective. What is written is on the disk."""
        with mpi.agreed(self.comm, f"writing {self.records.path}"):
            self.records.flush()

    @mpi.collective
    def _complete(self) -> None:
        """Collective. What is written is on the disk."""
        with mpi.agreed(self.comm, f"writing {self.records.path}"):
            self.records.flush()
