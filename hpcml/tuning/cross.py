"""One round of tuning: each label is trained outside each fold at each setting; its scores are summarised and stored.

The labels are distributed over the ranks, each of which has all rows. A rank takes a batch of labels through all folds, so it holds
the scores of one batch only.
"""

import json
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.shard import mask_empty_rows
from hpcml.errors import DataError, NonFiniteError
from hpcml.evaluation.decision import OWN_POINTS, PLACE, count_even_points, summarise
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

MAX_BATCH = 16  # labels that go through the folds together
UNTRAINED = -1.0  # score of every row of a fold, for a label without positive rows outside it
MEASURE: dict[str, Callable[[Ranking], float]] = {"map": average_precision, "auc": auc, "f1": lambda ranking: best_f1(ranking)[1]}


class TuningRound(Job):
    """The labels of a rank, each trained outside each fold at each setting, and a file with records of their scores.

    The file has a record (the score by the measure, and a `Summary`) for each label and setting, and a checksum for each label.
    `known` (n_labels) marks labels that need no training: those with a record, and those that cannot be trained.
    """

    title, saved = "tuning, labels", "finished labels are saved"
    n_done = 0.0

    def __init__(
        self, file: SlabFile, problem: LabelProblem, settings: Sequence[Setting], origin: dict[str, object], resume: bool
    ) -> None:
        """Create the file, or continue one of the same `origin` and settings. Raises DataError. Collective."""
        self.comm, self.file, self.rows, self.labels, self.n_settings = file.comm, file, problem.rows, problem.labels, len(settings)
        n_places = OWN_POINTS + count_even_points(self.labels.size) + 2  # enough for any summary
        self.record = np.dtype([("score", "<f8"), ("n", "<i4"), ("places", PLACE, n_places)])
        self.total = n_labels = self.labels.size
        self.empty = mask_empty_rows(problem.dataset, np.diff(self.rows.indptr) - self.rows.bias)  # mask of rows without features
        slabs = {"records": Slab((n_labels, len(settings) * self.record.itemsize), "|u1"), "crc/records": Slab((n_labels,), "<i8")}
        about = {name: str(value) for name, value in origin.items()} | {"settings": json.dumps(settings)}

        def read_existing() -> tuple[dict[str, tuple[int, Slab]], np.ndarray]:
            """Return the offsets of the slabs, and a mask of the labels with an intact record."""
            if not (resume and file.path.exists()):
                return {}, np.zeros(n_labels, bool)
            try:
                with open_stamped(file.path, "checkpoint", "hpcml tune") as stored:
                    if any(stored.attrs[name] != value for name, value in about.items()):
                        raise DataError(
                            f"{file.path}: this run was started on other data or settings; resume with the same, or use --force"
                        )
                    if {name: Slab(stored[name].shape, stored[name].dtype.str) for name in slabs} != slabs:
                        raise ValueError("wrong sizes or types")
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

        offsets, recorded = mpi.run_on_root(self.comm, f"reading {file.path}", read_existing)
        self.known = recorded | ~problem.trainable
        if offsets:
            file.attach(offsets)
        else:
            file.layout(slabs, describe)

    def prepare(self, folds: Sequence[tuple[Fold, Any]], shares: np.ndarray, measure: str, score_bytes: float) -> None:
        self.folds, self.shares, self.measure = folds, shares, MEASURE[measure]
        self.batch_size = max(1, min(MAX_BATCH, int(score_bytes / (4 * self.n_settings * self.rows.n_global))))
        order = np.concatenate([fold.numbers for fold, _ in folds])
        self.scored = ~self.empty[order]
        self.score_index = np.full(self.rows.n_global, -1)  # of each row among the scores of rows with features
        self.score_index[order[self.scored]] = np.arange(np.count_nonzero(self.scored))
        done = self.known & (self.comm.rank == 0)
        self.n_done, self.share_done = float(done.sum()), float(shares[done].sum())
        fold, fitter = folds[0]
        fitter.warm_up()
        score_rows(fold.held_out[0][:1], *fold.held_out[1:], np.zeros(0, np.float32), 1, np.zeros((1, 0), np.float32))
        summarise(np.arange(3.0, dtype=np.float32), np.array([2]))

    def solve(self, labels: Sequence[int], stop: Stop) -> Generator[list[tuple[int, np.ndarray]], None, None]:
        """Yield labels (indices in the run) with scores (n_settings × n); a turn is a fold, a stopped batch starts again."""
        for first in range(0, len(labels), self.batch_size):
            batch, begin = list(labels[first : first + self.batch_size]), 0
            scores = np.full((len(batch), self.n_settings, self.rows.n_global), UNTRAINED, np.float32)
            for fold, fitter in self.folds:
                if begin > 0:
                    yield []
                rows = slice(begin, begin + fold.numbers.size)
                begin = rows.stop
                for fitted in fitter.fit(self.labels[batch], stop):
                    out = np.empty((fitted.width, fold.held_out[0].size - 1), np.float32)
                    score_rows(*fold.held_out, fitted.w, fitted.width, out)
                    for lane, (index, setting) in enumerate(zip(fitted.places.tolist(), fitted.settings.tolist(), strict=True)):
                        if setting >= 0:
                            np.add(out[lane], np.float32(fitted.intercepts[lane]), out=scores[index, setting, rows])
            yield list(zip(batch, scores, strict=True))

    def keep(self, finished: list[tuple[int, np.ndarray]]) -> None:
        with mpi.agreed(mpi.self_comm(), f"writing {self.file.path}"):
            for label, scores in finished:
                number = int(self.labels[label])
                if not np.isfinite(scores).all():
                    raise NonFiniteError(f"the scores of label number {number} are not finite; scale the data or raise --lambda")
                positives, size = self.score_index[self.rows.rows_of(number)], count_even_points(self.labels.size)
                n_positive, positives = positives.size, positives[positives >= 0]
                n_missed, records = n_positive - positives.size, np.zeros(self.n_settings, self.record)
                for record, setting_scores in zip(records, scores, strict=True):
                    summary = summarise(setting_scores[self.scored] if self.empty.any() else setting_scores, positives, size)
                    ranking = replace(summary.ranking(), n_items=setting_scores.size - n_missed, n_missed=n_missed)
                    record["score"], record["n"] = self.measure(ranking), summary.points.size
                    record["places"][: summary.points.size] = summary.points
                CheckpointWriter(self.file).write_row("records", label, records.view(np.uint8))
                self.n_done += 1
                self.share_done += float(self.shares[label])

    def save(self) -> None:
        with mpi.agreed(self.comm, f"writing {self.file.path}"):
            self.file.flush()

    def read(self, labels: np.ndarray) -> Iterator[np.ndarray]:
        with open_hdf5(self.file.path) as file:
            for label in labels.tolist():
                yield file["records"][label].view(self.record)
