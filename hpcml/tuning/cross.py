"""One round of choosing: each label outside each fold at each setting, its scores summarised.

The labels are scattered over the ranks, each of which has all rows. A rank takes some labels at a
time through all folds, so that the scores of these labels are all that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.errors import NonFiniteError
from hpcml.evaluation.decision import Summary, even_places, summarise
from hpcml.measures import auc, average_precision, best_f1
from hpcml.methods.linear.load import LabelProblem
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


class CrossFits(Job):
    """The labels of a rank, each trained outside each fold at each setting, and the records of their scores.

    Making one is local.
    """

    title, saved = "choosing, labels", "the choice so far is kept"

    def __init__(
        self,
        comm: mpi.Comm,
        problem: LabelProblem,
        folds: Sequence[Fold],
        fitters: Sequence[Any],
        records: Records,
        known: np.ndarray,
        shares: np.ndarray,
        by: str,
        room: float,
    ) -> None:
        """`fitters`: of each fold what the method's `fitter` makes. `known` (n_labels) are done already,
        `shares` of the work that labels are; `room`: bytes for the scores.
        """
        self.comm, self.rows, self.labels, self.folds, self.fitters = comm, problem.rows, problem.labels, folds, fitters
        self.records, self.shares, self.measure = records, shares, MEASURE[by]
        self.together = max(1, min(TOGETHER, int(room / (4 * records.n_settings * self.rows.n_global))))
        self.begins = np.cumsum([0, *(fold.numbers.size for fold in folds)])
        self.place = np.empty(self.rows.n_global, np.int64)  # of each row among the scores
        self.place[np.concatenate([fold.numbers for fold in folds])] = np.arange(self.rows.n_global)
        self.done = known & (comm.rank == 0)
        self.share_done, self.total = float(shares[self.done].sum()), known.size

    def warm_up(self) -> None:
        """Compile the kernels. Local."""
        self.fitters[0].warm_up()
        fold = self.folds[0]
        kernels.score(fold.held_out[0][:1], *fold.held_out[1:], np.zeros(0, np.float32), 1, np.zeros((1, 0), np.float32))
        summarise(np.arange(3.0, dtype=np.float32), np.array([2]))

    def solve(self, labels: Sequence[int], stop: Stop) -> Generator[list[tuple[int, np.ndarray]], None, None]:
        """Yield labels (their places in the run) with their scores (n_settings × n), a fold a turn. Raises Stopped.

        Those that have not been through all folds then begin anew.
        """
        for first in range(0, len(labels), self.together):
            places = list(labels[first : first + self.together])
            scores = np.full((len(places), self.records.n_settings, self.rows.n_global), UNTRAINED, np.float32)
            for number, (fold, fitter) in enumerate(zip(self.folds, self.fitters, strict=True)):
                if number > 0:
                    yield []
                rows = slice(int(self.begins[number]), int(self.begins[number + 1]))
                for fitted in fitter.fit(self.labels[places], stop):
                    out = np.empty((fitted.width, fold.held_out[0].size - 1), np.float32)
                    kernels.score(*fold.held_out, fitted.w, fitted.width, out)
                    for lane, (place, setting) in enumerate(zip(fitted.places.tolist(), fitted.settings.tolist(), strict=True)):
                        if setting >= 0:
                            np.add(out[lane], np.float32(fitted.intercepts[lane]), out=scores[place, setting, rows])
            yield list(zip(places, scores, strict=True))

    @property
    def n_done(self) -> float:
        """The labels that this rank has done."""
        return float(np.count_nonzero(self.done))

    def note(self, turns: int) -> str:
        """How many folds this rank has been through."""
        return f"turn {turns}"

    def keep(self, finished: list[tuple[int, np.ndarray]]) -> None:
        """Write the measures and summaries of labels. Local; raises NonFiniteError, DataError."""
        with mpi.agreed(mpi.self_comm(), f"writing {self.records.path}"):
            for place, scores in finished:
                number = int(self.labels[place])
                if not np.isfinite(scores).all():
                    raise NonFiniteError(
                        f"the scores of label number {number} are not finite; scale the data or choose another --lambda"
                    )
                positives, size = self.place[self.rows.rows_of(number)], even_places(self.labels.size)
                summaries = [summarise(of_setting, positives, size) for of_setting in scores]
                self.records.write(place, [self.measure(summary) for summary in summaries], summaries)
                self.done[place] = True
                self.share_done += float(self.shares[place])

    def save(self) -> None:
        """Collective. What is written is on the disk."""
        with mpi.agreed(self.comm, f"writing {self.records.path}"):
            self.records.file.flush()
