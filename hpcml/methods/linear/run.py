"""A training run from its first step to its last: checkpoints, the model file, the history,
signals and time limits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.files.slabs import Slab, SlabFile
from hpcml.log import plural
from hpcml.methods.linear.earlier import Earlier
from hpcml.methods.linear.layout import labels_of_group
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.solver import DEGENERATE, HISTORY, Finished, History, Packed, Solver, SparseWeightsOf
from hpcml.run.checkpoint import Checkpoints, CheckpointWriter, reading_checkpoint
from hpcml.run.driver import Driver, Job
from hpcml.run.folder import RunFolder
from hpcml.run.history import HistoryFile
from hpcml.run.sparse_weights import SparseWeights


class LabelRun(Job):
    """The outcome of a run, label by label, over all rank groups. Making one is local."""

    solver = Solver()  # that trains them, and has what a checkpoint needs of those in training

    def __init__(
        self,
        driver: Driver,
        problem: LabelProblem,
        model: SlabFile,
        folder: RunFolder,
        options: LinearOptions,
        weights: SparseWeights | None = None,
    ) -> None:
        """`weights` takes the place of the model's `W` where that will be sparse."""
        self.driver, self.problem, self.rows, self.labels = driver, problem, problem.rows, problem.labels
        self.comm, self.options, self.model, self.folder, self.weights = driver.comm, options, model, folder, weights
        self.leads = self.rows.comm.rank == 0  # of the ranks of its group, the one that writes
        self.done = np.zeros(self.labels.size, dtype=np.uint8)  # the labels that this group's leader has finished
        self.n_positive = self.rows.n_positive[self.labels]
        self.checkpoints = Checkpoints(self.comm, folder.checkpoints, folder.log)
        self.history = HistoryFile(self.comm, folder.history, problem.names, *(problem.method.history or History()))
        self.chunk_values = 0  # of rows that are streamed, else 0

    @property
    def n_done(self) -> float:
        """The labels that this rank has finished."""
        return float(self.leads * self.done.sum())

    def note(self, turns: int) -> str:
        """How many passes this group has made."""
        return f"pass {turns}"

    @mpi.collective
    def begin(self, restore: bool) -> tuple[list[int], list[int], Path | None]:
        """Collective. (labels of this group that wait, places in the checkpoint of those to
        continue, the checkpoint).

        Writes the models of degenerate labels. Raises DataError if every checkpoint is damaged.
        """
        path = self.checkpoints.newest() if restore else None
        continued, done = np.zeros(0, dtype=np.int64), np.zeros(self.labels.size, dtype=np.uint8)
        written = None
        if restore and path is None:
            self.folder.log("no checkpoint was written yet; starting from the beginning")
        if path is not None:
            with mpi.agreed(self.comm, f"reading {path}"), reading_checkpoint(path) as file:
                done = file["done"][0]
                continued = file["numbers"][:, 0].astype(np.int64) if "numbers" in file else continued
                self.driver.before = float(file["elapsed"][0, 0])
                self.chunk_values = int(file["chunk"][0, 0]) if "chunk" in file else 0
                index = file["history"][:]
                if self.weights is not None:
                    written = file["weights"][0].reshape(self.weights.index.shape)
                if done.shape != (self.labels.size,) or index.shape != (self.labels.size, 2) or (continued >= done.size).any():
                    raise ValueError("it is of another number of labels")
            self.history.resume(index)
            self.folder.log(f"resuming from {path.name}: {int(done.sum())} of {plural(self.labels.size, 'label')} done")
        else:
            self.history.start()
        if self.weights is not None:
            self.weights.resume(written)
        trainable = (self.n_positive > 0) & (self.n_positive < self.rows.n_global)
        with mpi.agreed(self.comm, f"writing {self.model.target}"):
            for label in np.flatnonzero(~trainable) if self.comm.rank == 0 else ():
                self.write(int(label), None, 0.0, DEGENERATE, 0, 0.0, bias=1.0 if self.n_positive[label] else -1.0)
        if self.comm.rank == 0:
            self.done |= done.astype(bool) | ~trainable
        waiting = np.setdiff1d(np.flatnonzero(trainable & (done == 0)), continued)
        number, n_groups = self.problem.group
        return (
            labels_of_group(waiting, self.n_positive, number, n_groups).tolist(),
            list(range(number, continued.size, n_groups)),
            path,
        )

    @mpi.collective
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

    @mpi.collective
    def complete(self) -> None:
        """Collective. The model and the history, on the disk and in order."""
        self._flush()
        self.history.write()
        self.history.sort(self.folder.history_sorted)

    @mpi.collective
    def keep(self, finished: list[Finished]) -> None:
        """Collective over the group. Write the labels that are done."""
        with mpi.agreed(self.rows.comm, f"writing {self.model.target}"):
            for label in finished if self.leads else ():
                intercept = label.w.intercept if isinstance(label.w, SparseWeightsOf) else 0.0
                self.write(label.label, label.w, label.f, label.status, label.steps, label.visited, intercept, label.gap)
                self.done[label.label] = 1
                self.history.add(label.label, label.history)

    def write(
        self,
        label: int,
        w: np.ndarray | SparseWeightsOf | None,
        f: float,
        status: int,
        steps: int,
        visited: float,
        bias: float = 0.0,
        gap: float | None = None,
    ) -> None:
        """Write one label's row of the model. Local; raises OSError."""
        n_columns = self.rows.n_columns - self.rows.bias
        if isinstance(w, SparseWeightsOf):
            assert self.weights is not None
            self.weights.write_some(label, w.columns, w.values)
        else:
            weights = np.zeros(n_columns) if w is None else w[:n_columns]
            if self.weights is None:
                self.model.write("W", label, weights.reshape(1, -1))
            else:
                self.weights.write(label, weights)
            bias = w[-1] if w is not None and self.rows.bias else bias
        numbers = {"bias": bias, "labels/f_min": f, "labels/steps": steps}
        numbers |= {"labels/status": status, "labels/visited": visited, "labels/n_positive": self.n_positive[label]}
        if "labels/gap" in self.model.offsets:
            numbers["labels/gap"] = gap or 0.0
        for name, value in numbers.items():
            self.model.write(name, label, np.array([value]))

    @mpi.collective
    def _flush(self) -> None:
        """Collective. Force what was written of the model to the disk."""
        with mpi.agreed(self.comm, f"writing {self.model.target}"):
            self.model.flush()
            if self.weights is not None:
                self.weights.flush()

    @mpi.collective
    def save(self) -> None:
        """Collective. Write a checkpoint of everything that the model file does not hold yet."""
        self.history.write()
        self._flush()
        labels = self.solver.pack()
        before, total = mpi.exclusive_sum(self.comm, [len(labels) if self.leads else 0])
        first = self.rows.comm.bcast(int(before[0]))
        width = int(mpi.allreduce_max(self.comm, float(max((label.numbers.size for label in labels), default=0))))
        longest = int(mpi.allreduce_max(self.comm, float(max((len(label.history) for label in labels), default=0))))
        done = mpi.allreduce_maxima(self.comm, self.done * np.uint8(self.leads))
        arrays = {
            "done": Slab((1, done.size), "|u1"),
            "elapsed": Slab((1, 1), "<f8"),
            "history": Slab((self.labels.size, 2), "<f8"),
        }
        if self.chunk_values:
            arrays["chunk"] = Slab((1, 1), "<f8")
        written = None if self.weights is None else self.weights.gathered()
        if written is not None:
            arrays["weights"] = Slab((1, written.size), "<i8")
        if total[0]:
            n = int(total[0])
            weights = labels[0].w.dtype.str if labels else "<f4"
            weights = "<f8" if mpi.agreed_any(self.comm, weights == "<f8") else "<f4"
            arrays |= {"W": Slab((n, self.rows.n_columns), weights), "best": Slab((n, self.rows.n_columns), weights)}
            arrays |= {"rows": Slab((n, self.rows.n_global), "|u1"), "numbers": Slab((n, width), "<f8")}
            arrays["steps"] = Slab((n, longest * len(HISTORY)), "<f8")

        def fill(out: CheckpointWriter) -> None:
            for row, label in enumerate(labels if self.leads else (), first):
                for name, values in zip(("W", "best", "rows", "numbers"), label[:4], strict=True):
                    out.write_row(name, row, values)
                steps = np.full(longest * len(HISTORY), np.nan)
                steps[: label.history.size] = label.history.reshape(-1)
                out.write_row("steps", row, steps)
            if self.comm.rank == 0:
                out.write_row("done", 0, done)
                out.write_row("elapsed", 0, np.array([self.driver.elapsed]))
                if self.chunk_values:
                    out.write_row("chunk", 0, np.array([self.chunk_values]))
                out.write_rows("history", 0, self.history.index)
                if written is not None:
                    out.write_row("weights", 0, written)

        self.checkpoints.save(arrays, fill)

    @mpi.collective
    def restore(self, place: int, path: Path | None) -> None:
        """Collective over the group. Give the solver back the label at `place` of a checkpoint."""
        with mpi.agreed(self.rows.comm, f"reading {path}"):
            if not self.solver.packs or path is None:
                raise ValueError("labels in training, of a method that has none in its checkpoints")
            with reading_checkpoint(path) as file:
                w, best, rows, numbers = (file[name][place] for name in ("W", "best", "rows", "numbers"))
                steps = file["steps"][place].reshape(-1, len(HISTORY))
        self.solver.unpack(Packed(w, best, rows, numbers, steps))
