"""A training run from its first step to its last: checkpoints, the model file, the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.files.slabs import Slab, SlabFile
from hpcml.log import plural
from hpcml.methods.linear.earlier import Earlier
from hpcml.methods.linear.layout import labels_of_group
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.model_file import sparse_weights
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.solver import DEGENERATE, HISTORY, Finished, History, Packed, Solver, SparseWeightsOf
from hpcml.run.checkpoint import Checkpoints, CheckpointWriter, reading_checkpoint
from hpcml.run.driver import Driver, Job
from hpcml.run.folder import RunFolder
from hpcml.run.history import HistoryFile


def shares_of(problem: LabelProblem, options: Any) -> np.ndarray:
    """The share of the work that each label of a run is (n_labels), 0 where it is not trained."""
    costs = np.where(problem.trainable, problem.method.costs(problem.n_positive.astype(np.float64), options), 0.0)
    shares: np.ndarray = costs / max(costs.sum(), 1e-300)
    return shares


class LabelRun(Job):
    """The outcome of a run, label by label, over all rank groups. Making one is local."""

    solver = Solver()  # that trains them, and has what a checkpoint needs of those in training

    def __init__(self, driver: Driver, problem: LabelProblem, model: SlabFile, folder: RunFolder, options: LinearOptions) -> None:
        self.driver, self.problem, self.rows, self.labels = driver, problem, problem.rows, problem.labels
        self.comm, self.options, self.model, self.folder = driver.comm, options, model, folder
        self.weights = sparse_weights(folder, problem, options)  # in the place of the model's `W`, where that will be sparse
        self.leads = self.rows.comm.rank == 0  # of the ranks of its group, the one that writes
        self.done = np.zeros(self.labels.size, dtype=np.uint8)  # the labels that this group's leader has finished
        self.n_positive = problem.n_positive
        self.shares = shares_of(problem, options)
        self.share_done = 0.0  # of the work: of the labels that this rank has finished
        self.total = self.labels.size
        self.checkpoints = Checkpoints(self.comm, folder.checkpoints, folder.log)
        self.history = HistoryFile(self.comm, folder.history, problem.names, *(problem.method.history or History()))
        self.chunk_values = 0  # of rows that are streamed, else 0

    @property
    def n_done(self) -> float:
        """The labels that this rank has finished."""
        return float(self.leads * np.count_nonzero(self.done.view(np.bool_)))

    def note(self, turns: int) -> str:
        """How many passes this group has made."""
        return f"pass {turns}"

    def begin(self, restore: bool) -> tuple[list[int], list[int], Path | None]:
        """Collective. The labels of this group that wait; and those to continue, in a checkpoint.

        Of the latter, the places there, and its path. Writes the models of degenerate labels.
        Raises DataError if every checkpoint is damaged.
        """
        path = self.checkpoints.newest() if restore else None
        done, continued, written = np.zeros(self.labels.size, np.uint8), np.zeros(0, np.int64), None
        if path is not None:
            done, continued, written = self._read(path)
        else:
            if restore:
                self.folder.log("no checkpoint was written yet; starting from the beginning")
            self.history.start()
        if self.weights is not None:
            self.weights.resume(written)
        trainable = self.problem.trainable
        with mpi.agreed(self.comm, f"writing {self.model.target}"):
            for label in np.flatnonzero(~trainable).tolist() if self.comm.rank == 0 else ():
                constant = SparseWeightsOf(np.zeros(0, np.int64), np.zeros(0), 1.0 if self.n_positive[label] else -1.0)
                self.write(Finished(label, constant, 0.0, DEGENERATE, 0, 0.0, []))
        if self.comm.rank == 0:
            self.done |= done.astype(bool) | ~trainable
            self.share_done = float(self.shares[self.done != 0].sum())
        waiting = np.setdiff1d(np.flatnonzero(trainable & (done == 0)), continued)
        number, n_groups = self.problem.group
        mine = labels_of_group(waiting, self.n_positive, number, n_groups).tolist()
        return mine, list(range(number, continued.size, n_groups)), path

    def _read(self, path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Collective. Of a checkpoint: labels that are done, labels to continue, sparse weights."""
        continued, written = np.zeros(0, dtype=np.int64), None
        with mpi.agreed(self.comm, f"reading {path}"), reading_checkpoint(path) as file:
            done, index = file["done"][0], file["history"][:]
            continued = file["numbers"][:, 0].astype(np.int64) if "numbers" in file else continued
            self.driver.before = float(file["elapsed"][0, 0])
            self.chunk_values = int(file["chunk"][0, 0]) if "chunk" in file else 0
            if self.weights is not None:
                written = file["weights"][0].reshape(self.weights.index.shape)
            if done.shape != (self.labels.size,) or index.shape != (self.labels.size, 2) or (continued >= done.size).any():
                raise ValueError("it is of another number of labels")
        self.history.resume(index)
        self.folder.log(f"resuming from {path.name}: {int(done.sum())} of {plural(self.labels.size, 'label')} done")
        return done, continued, written

    def take_over(self, earlier: Earlier) -> None:
        """Collective. Write the models that labels keep from an earlier run, as they are there."""
        with mpi.agreed(self.comm, f"writing {self.model.target}"):
            for label, before in earlier.kept.items() if self.comm.rank == 0 else ():
                model = earlier.model
                if self.weights is None:
                    self.model.write("W", label, model.rows(np.array([before])))
                else:
                    self.weights.write_some(label, *model.row(before))
                self.model.write("bias", label, model.bias[before : before + 1])
                for name in ("f_min", "steps", "status", "visited", "n_positive", "gap"):
                    self.model.write(f"labels/{name}", label, model.labels[name][before : before + 1])
                self.done[label] = 1
                self.share_done += float(self.shares[label])

    def complete(self) -> None:
        """Collective. The model and the history, on the disk and in order."""
        self._flush()
        self.history.write()
        self.history.sort(self.folder.history_sorted)

    def keep(self, finished: list[Finished]) -> None:
        """Collective over the group. Write the labels that are done."""
        with mpi.agreed(self.rows.comm, f"writing {self.model.target}"):
            for label in finished if self.leads else ():
                self.write(label)
                self.done[label.label] = 1
                self.share_done += float(self.shares[label.label])
                self.history.add(label.label, label.history)

    def write(self, done: Finished) -> None:
        """Write one label's row of the model. Local; raises OSError."""
        n_columns, columns = self.rows.n_columns - self.rows.bias, None
        if isinstance(done.w, SparseWeightsOf):
            columns, w, bias = done.w
        else:
            w, bias = done.w[:n_columns], done.w[-1] if self.rows.bias else 0.0
        if self.weights is not None:
            self.weights.write_some(done.label, columns, w)
        else:
            dense = np.zeros((1, n_columns), w.dtype)
            dense[0, slice(None) if columns is None else columns] = w
            self.model.write("W", done.label, dense)
        numbers = {"bias": bias, "labels/f_min": done.f, "labels/steps": done.steps, "labels/status": done.status}
        numbers |= {"labels/visited": done.visited, "labels/n_positive": self.n_positive[done.label]}
        if "labels/gap" in self.model.offsets:
            numbers["labels/gap"] = done.gap or 0.0
        for name, value in numbers.items():
            self.model.write(name, done.label, np.array([value]))

    def _flush(self) -> None:
        """Collective. Force what was written of the model to the disk."""
        with mpi.agreed(self.comm, f"writing {self.model.target}"):
            self.model.flush()
            if self.weights is not None:
                self.weights.flush()

    def save(self) -> None:
        """Collective. Write a checkpoint of everything that the model file does not hold yet."""
        self.history.write()
        self._flush()
        labels = self.solver.pack()
        before, total = mpi.exclusive_sum(self.comm, [len(labels) if self.leads else 0])
        first, of_labels = self.rows.comm.bcast(int(before[0])), self._slabs(labels, int(total[0]))
        once = {"done": mpi.allreduce_maxima(self.comm, self.done * np.uint8(self.leads)).reshape(1, -1)}
        once |= {"elapsed": np.array([[self.driver.seconds]]), "history": self.history.index}
        if self.chunk_values:
            once["chunk"] = np.array([[float(self.chunk_values)]])
        if self.weights is not None:
            once["weights"] = self.weights.gathered().reshape(1, -1)
        arrays = {name: Slab(values.shape, values.dtype.str) for name, values in once.items()} | of_labels

        def fill(out: CheckpointWriter) -> None:
            for row, label in enumerate(labels if self.leads else (), first):
                for name, values in zip(("W", "best", "rows", "numbers"), label[:4], strict=True):
                    out.write_row(name, row, values)
                steps = np.full(of_labels["steps"].shape[1], np.nan)
                steps[: label.history.size] = label.history.reshape(-1)
                out.write_row("steps", row, steps)
            for name, values in once.items() if self.comm.rank == 0 else ():
                out.write_rows(name, 0, values)

        self.checkpoints.save(arrays, fill)

    def _slabs(self, labels: list[Packed], n: int) -> dict[str, Slab]:
        """Collective. The arrays of a checkpoint for the n labels in training; `labels` here."""
        width = int(mpi.allreduce_max(self.comm, float(max((label.numbers.size for label in labels), default=0))))
        longest = int(mpi.allreduce_max(self.comm, float(max((len(label.history) for label in labels), default=0))))
        if not n:
            return {}
        double = mpi.agreed_any(self.comm, any(label.w.dtype == np.float64 for label in labels[:1]))
        weights, steps = Slab((n, self.rows.n_columns), "<f8" if double else "<f4"), Slab((n, longest * len(HISTORY)), "<f8")
        rows, numbers = Slab((n, self.rows.n_global), "|u1"), Slab((n, width), "<f8")
        return {"W": weights, "best": weights, "rows": rows, "numbers": numbers, "steps": steps}

    def close(self) -> None:
        """Close the files. Local."""
        self.model.close()
        if self.weights is not None:
            self.weights.close()

    def restore(self, place: int, path: Path | None) -> None:
        """Collective over the group. Give the solver back the label at `place` of a checkpoint."""
        with mpi.agreed(self.rows.comm, f"reading {path}"):
            if not self.solver.packs or path is None:
                raise ValueError("labels in training, of a method that has none in its checkpoints")
            with reading_checkpoint(path) as file:
                w, best, rows, numbers = (file[name][place] for name in ("W", "best", "rows", "numbers"))
                steps = file["steps"][place].reshape(-1, len(HISTORY))
        self.solver.unpack(Packed(w, best, rows, numbers, steps))
