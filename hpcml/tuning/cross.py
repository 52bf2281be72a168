"""One round of choosing: each label outside each fold at each setting, its scores summarised.

The labels are scattered over the ranks, each of which has all rows. A rank takes some labels at a
time through all folds, so that the scores of these labels are all that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.errors import NonFiniteError
from hpcml.evaluation.decision import Summary, even_places, summarise
from hpcml.measures import auc, average_precision, best_f1
from hpcml.methods.linear.settings import SettingsFitter
from hpcml.run.driver import Job
from hpcml.run.stop import Stop
from hpcml.tuning import kernels
from hpcml.tuning.folds import Fold
from hpcml.tuning.records import Records

TOGETHER = 16  # labels that go through the folds together, at most
UNTRAINED = -1.0  # the score of every row, for a label that no row outside the fold has


MEASURE: dict[str, Callable[[Summary], float]] = {
    "map": lambda summary: average_precision(summary.ranking()),
    "auc": lambda summary: auc(summary.ranking()),
    "f1": lambda summary: best_f1(summary.ranking())[1],
}


class Crossed(NamedTuple):
    """A label (its place in the run) through all folds: measure and summary at each setting."""

    place: int
    scores: list[float]
    summaries: list[Summary]


class CrossFits:
    """The labels of a rank. Local."""

    def __init__(
        self,
        rows: CompactRows,
        folds: Sequence[Fold],
        fitters: Sequence[SettingsFitter],
        labels: np.ndarray,
        n_settings: int,
        by: str,
        room: float,
    ) -> None:
        """`labels`: the numbers in the data of all labels; `room`: bytes for the scores."""
        self.rows, self.folds, self.fitters, self.labels = rows, folds, fitters, labels
        self.n_settings, self.measure = n_settings, MEASURE[by]
        self.together = max(1, min(TOGETHER, int(room / (4 * n_settings * rows.n_global))))
        self.begins = np.cumsum([0, *(fold.numbers.size for fold in folds)])
        self.place = np.empty(rows.n_global, np.int64)  # of each row among the scores
        self.place[np.concatenate([fold.numbers for fold in folds])] = np.arange(rows.n_global)

    def warm_up(self) -> None:
        """Compile the kernels. Local."""
        self.fitters[0].warm_up()
        fold = self.folds[0]
        kernels.score(fold.held_out[0][:1], *fold.held_out[1:], np.zeros(0, np.float32), 1, np.zeros((1, 0), np.float32))
        summarise(np.arange(3.0, dtype=np.float32), np.array([2]))

    def solve(self, labels: Sequence[int], stop: Stop) -> Generator[list[Crossed], None, None]:
        """Labels (their places in the run) through all folds, a fold a turn. Raises Stopped.

        Those that have not been through all folds then begin anew.
        """
        for first in range(0, len(labels), self.together):
            some = list(labels[first : first + self.together])
            scores = np.full((len(some), self.n_settings, self.rows.n_global), UNTRAINED, np.float32)
            for number in range(len(self.folds)):
                self._score_fold(number, some, scores, stop)
                if number < len(self.folds) - 1:
                    yield []
            yield [self._crossed(place, of_label) for place, of_label in zip(some, scores, strict=True)]

    def _score_fold(self, number: int, labels: list[int], scores: np.ndarray, stop: Stop) -> None:
        """Train labels outside a fold, and score its rows."""
        held_out = self.folds[number].held_out
        some = slice(int(self.begins[number]), int(self.begins[number + 1]))
        for fitted in self.fitters[number].fit(self.labels[labels], stop):
            out = np.empty((fitted.width, held_out[0].size - 1), np.float32)
            kernels.score(*held_out, fitted.w, fitted.width, out)
            for lane, (place, setting) in enumerate(zip(fitted.places.tolist(), fitted.settings.tolist(), strict=True)):
                if setting >= 0:
                    np.add(out[lane], np.float32(fitted.intercepts[lane]), out=scores[place, setting, some])

    def _crossed(self, place: int, scores: np.ndarray) -> Crossed:
        """The summaries of a label's scores (n_settings × n). Raises NonFiniteError."""
        number = int(self.labels[place])
        positives = self.place[self.rows.rows_of(number)]
        if not np.isfinite(scores).all():
            raise NonFiniteError(f"the scores of label number {number} are not finite; scale the data or choose another --lambda")
        summaries = [summarise(of_setting, positives, even_places(self.labels.size)) for of_setting in scores]
        return Crossed(place, [self.measure(summary) for summary in summaries], summaries)


class CrossRun(Job):
    """A round over all ranks: what each has done goes into the records. Making one is local."""

    def __init__(self, comm: mpi.Comm, records: Records, known: np.ndarray, shares: np.ndarray) -> None:
        """`known` (n_labels) are done already; `shares` of the work that labels are."""
        self.comm, self.records, self.shares = comm, records, shares
        self.done = known & (comm.rank == 0)
        self.share_done = float(shares[self.done].sum())

    @property
    def n_done(self) -> float:
        """The labels that this rank has done."""
        return float(np.count_nonzero(self.done))

    def note(self, turns: int) -> str:
        """How many folds this rank has been through."""
        return f"turn {turns}"

    def keep(self, finished: list[Crossed]) -> None:
        """Write the labels that are done. Local; raises DataError, OSError."""
        with mpi.agreed(mpi.self_comm(), f"writing {self.records.path}"):
            for label in finished:
                self.records.write(label.place, label.scores, label.summaries)
                self.done[label.place] = True
                self.share_done += float(self.shares[label.place])

    def save(self) -> None:
        """Collective. What is written is on the disk."""
        with mpi.agreed(self.comm, f"writing {self.records.path}"):
            self.records.file.flush()
