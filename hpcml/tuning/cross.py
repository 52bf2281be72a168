"""One round of choosing: each label outside each fold at each setting, its scores summarised and recorded.

The labels are scattered over the ranks, each of which has all rows. A rank takes some labels at a
time through all folds, so that the scores of these labels are all that it holds.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.shard import are_empty
from hpcml.errors import DataError, NonFiniteError
from hpcml.evaluation.decision import OWN_PLACES, PLACE, even_places, summarise
from hpcml.files.hdf5 import DAMAGE, open_hdf5, open_stamped, stamp
from hpcml.files.slabs import Slab, SlabFile
from hpcml.kernels.lanes.products import score_rows
from hpcml.measures import Ranking, auc, average_precision, best_f1
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.settings import Setting
from hpcml.run.checkpoint import CheckpointWriter
from hpcml.run.driver import Job
from hpcml.run.stop import Stop
from hpcml.tuning.folds import Fold

TOGETHER = 16  # labels that go through the folds together, at most
UNTRAINED = -1.0  # the score of every row, for a label that no row outside the fold has


MEASURE: dict[str, Callable[[Ranking], float]] = {"map": average_precision, "auc": auc, "f1": lambda ranking: best_f1(ranking)[1]}


class Round(Job):
    """The labels of a rank, each trained outside each fold at each setting, and a file of records of their scores.

    The file has a record (the score by the measure, and a `Summary`) for each label and setting, and a checksum for each
    label. It is filled label by label and lies in the folder of the checkpoints, so that --resume goes on with it.
    """

    title, saved = "choosing, labels", "the choice so far is kept"
    n_done = 0.0

    def __init__(
        self, file: SlabFile, problem: LabelProblem, settings: Sequence[Setting], origin: dict[str, object], resume: bool
    ) -> None:
        """Collective. Open the file, new or to go on with one of the same `origin` and settings. Raises DataError.

        `known` (n_labels) says which labels need no training: those with a record, and those that cannot be trained.
        """
        self.comm, self.file, self.rows, self.labels, self.n_settings = file.comm, file, problem.rows, problem.labels, len(settings)
        self.record = np.dtype(
            [("score", "<f8"), ("n", "<i4"), ("places", PLACE, OWN_PLACES + even_places(self.labels.size) + 2)]  # for any summary
        )
        self.total = n_labels = self.labels.size
        self.empty = are_empty(problem.dataset, np.diff(self.rows.indptr) - self.rows.bias)  # flags of the rows that get no labels
        slabs = {"records": Slab((n_labels, len(settings) * self.record.itemsize), "|u1"), "crc/records": Slab((n_labels,), "<i8")}
        about = {name: str(value) for name, value in origin.items()} | {"settings": json.dumps(settings)}

        def look() -> tuple[dict[str, tuple[int, Slab]], np.ndarray]:
            """Return where the slabs are, and which labels are written and sound."""
            if not (resume and file.path.exists()):
                return {}, np.zeros(n_labels, bool)
            try:
                with open_stamped(file.path, "checkpoint", "hpcml tune") as stored:
                    if any(stored.attrs[name] != value for name, value in about.items()):
                        raise DataError(
                            f"{file.path}: the run was started on other data or settings; resume with the same, or --force"
                        )
                    if {name: Slab(stored[name].shape, stored[name].dtype.str) for name in slabs} != slabs:
                        raise ValueError("sizes or types do not fit")
                    offsets = {name: (stored[name].id.get_offset(), slab) for name, slab in slabs.items()}
                    rows = (stored["records"][label] for label in range(n_labels))
                    crcs = stored["crc/records"][:]
                    return offsets, np.array([zlib.crc32(row.data) == crc for row, crc in zip(rows, crcs, strict=True)], bool)
            except DAMAGE:
                raise DataError(f"{file.path}: damaged; start again with --force") from None

        def describe(new: h5py.File) -> None:
            stamp(new, "checkpoint")
            new.attrs.update(about)
            new["crc/records"][:] = -1

        offsets, recorded = mpi.run_on_root(self.comm, f"reading {file.path}", look)
        self.known = recorded | ~problem.trainable
        if offsets:
            file.attach(offsets)
        else:
            file.layout(slabs, describe)

    def prepare(self, folds: Sequence[tuple[Fold, Any]], shares: np.ndarray, measure: str, room: float) -> None:
        """Take the folds, each with what the method's `fitter` makes, and compile the kernels. Local.

        `shares` of the work that labels are; `room`: bytes for the scores.
        """
        self.folds, self.shares, self.measure = folds, shares, MEASURE[measure]
        self.together = max(1, min(TOGETHER, int(room / (4 * self.n_settings * self.rows.n_global))))
        numbers = [fold.numbers for fold, _ in folds]
        order = np.concatenate(numbers)
        self.judged = ~self.empty[order]  # flags of the scores
        self.place = np.full(self.rows.n_global, -1)  # of each row among the judged scores
        self.place[order[self.judged]] = np.arange(np.count_nonzero(self.judged))
        done = self.known & (self.comm.rank == 0)
        self.n_done, self.share_done = float(done.sum()), float(shares[done].sum())
        fold, fitter = folds[0]
        fitter.warm_up()
        score_rows(fold.held_out[0][:1], *fold.held_out[1:], np.zeros(0, np.float32), 1, np.zeros((1, 0), np.float32))
        summarise(np.arange(3.0, dtype=np.float32), np.array([2]))

    def solve(self, labels: Sequence[int], stop: Stop) -> Generator[list[tuple[int, np.ndarray]], None, None]:
        """Yield labels (their places in the run) with their scores (n_settings × n), a fold a turn. Raises Stopped.

        Those that have not been through all folds then begin anew.
        """
        for first in range(0, len(labels), self.together):
            places, begin = list(labels[first : first + self.together]), 0
            scores = np.full((len(places), self.n_settings, self.rows.n_global), UNTRAINED, np.float32)
            for fold, fitter in self.folds:
                if begin > 0:
                    yield []
                rows = slice(begin, begin + fold.numbers.size)
                begin = rows.stop
                for fitted in fitter.fit(self.labels[places], stop):
                    out = np.empty((fitted.width, fold.held_out[0].size - 1), np.float32)
                    score_rows(*fold.held_out, fitted.w, fitted.width, out)
                    for lane, (place, setting) in enumerate(zip(fitted.places.tolist(), fitted.settings.tolist(), strict=True)):
                        if setting >= 0:
                            np.add(out[lane], np.float32(fitted.intercepts[lane]), out=scores[place, setting, rows])
            yield list(zip(places, scores, strict=True))

    def keep(self, finished: list[tuple[int, np.ndarray]]) -> None:
        """Write the measures and summaries of labels. Local; raises NonFiniteError, DataError."""
        with mpi.agreed(mpi.self_comm(), f"writing {self.file.path}"):
            for place, scores in finished:
                number = int(self.labels[place])
                if not np.isfinite(scores).all():
                    raise NonFiniteError(
                        f"the scores of label number {number} are not finite; scale the data or choose another --lambda"
                    )
                positives, size = self.place[self.rows.rows_of(number)], even_places(self.labels.size)
                n_positive, positives = positives.size, positives[positives >= 0]
                n_missed, records = n_positive - positives.size, np.zeros(self.n_settings, self.record)
                for record, of_setting in zip(records, scores, strict=True):
                    summary = summarise(of_setting[self.judged] if self.empty.any() else of_setting, positives, size)
                    ranking = replace(summary.ranking(), n_items=of_setting.size - n_missed, n_missed=n_missed)
                    record["score"], record["n"] = self.measure(ranking), summary.points.size
                    record["places"][: summary.points.size] = summary.points
                CheckpointWriter(self.file).write_row("records", place, records.view(np.uint8))
                self.n_done += 1
                self.share_done += float(self.shares[place])

    def save(self) -> None:
        """Collective. Force what is written to the disk."""
        with mpi.agreed(self.comm, f"writing {self.file.path}"):
            self.file.flush()

    def read(self, labels: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the records (n_settings) of each of some labels. Local; raises OSError."""
        with open_hdf5(self.file.path) as file:
            for label in labels.tolist():
                yield file["records"][label].view(self.record)
