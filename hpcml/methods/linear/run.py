"""The finished labels of a training run, and its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcml import mpi
from hpcml.files.slabs import Slab
from hpcml.log import plural
from hpcml.methods.linear.layout import labels_of_group
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.model_file import NUMBERS
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.solver import DEGENERATE, HISTORY, Finished, History, Packed, Solver, SparseWeightsOf
from hpcml.run.checkpoint import Checkpoints, CheckpointWriter, reading_checkpoint
from hpcml.run.driver import Driver, Job
from hpcml.run.folder import RunFolder
from hpcml.run.results import Results

if TYPE_CHECKING:
    from hpcml.methods.retrain import Earlier


def shares_of(problem: LabelProblem, options: Any) -> np.ndarray:
    """The share of the work that each label of a run is (n_labels), 0 where it is not trained."""
    costs = np.where(problem.trainable, problem.method.costs(problem.n_positive.astype(np.float64), options), 0.0)
    shares: np.ndarray = costs / max(costs.sum(), 1e-300)
    return shares


class LabelRun(Job):
    """The outcome of a run, label by label, over all rank groups. Making one is local."""

    solver = Solver()  # that trains them, and has what a checkpoint needs of those in training
    n_done = 0.0  # labels that this rank has finished

    def __init__(self, driver: Driver, problem: LabelProblem, folder: RunFolder, options: LinearOptions) -> None:
        self.driver, self.problem, self.rows, self.labels = driver, problem, problem.rows, problem.labels
        self.comm, self.options, self.folder = driver.comm, options, folder
        n_columns, self.certified = self.rows.n_columns - self.rows.bias, problem.method.certified
        width = n_columns if options.drop is None else problem.objective.row_width(n_columns)
        precision = problem.objective.weight_type.str
        self.results = Results(self.comm, folder.checkpoints, self.labels.size, width, precision, options.drop)
        self.leads = self.rows.comm.rank == 0  # of the ranks of its group, the one that writes
        self.n_positive, self.total = problem.n_positive, self.labels.size
        self.shares, self.share_done = (
            shares_of(problem, options),
            0.0,
        )  # of the work: labels, and those that this rank has finished
        self.checkpoints = Checkpoints(self.comm, folder.checkpoints, folder.log)
        self.history = problem.method.history or History()
        self.chunk_values = 0  # of rows that are streamed, else 0

    def note(self, turns: int) -> str:
        """How many passes this group has made."""
        return f"pass {turns}"

    def begin(self, restore: bool) -> tuple[list[int], list[int], Path | None]:
        """Collective. The labels of this group that wait; and those to continue, in a checkpoint.

        Of the latter, the places there, and its path. Writes the models of degenerate labels.
        Raises DataError if every checkpoint is damaged.
        """
        path = self.checkpoints.newest() if restore else None
        self.results.start(restore)
        done, continued = self.results.done, np.zeros(0, np.int64)
        if self.comm.rank == 0:
            self.n_done, self.share_done = float(np.count_nonzero(done)), float(self.shares[done].sum())
        if path is not None:
            with mpi.agreed(self.comm, f"reading {path}"), reading_checkpoint(path) as file:
                continued = file["numbers"][:, 0].astype(np.int64) if "numbers" in file else continued
                self.driver.before = float(file["elapsed"][0, 0])
                self.chunk_values = int(file["chunk"][0, 0]) if "chunk" in file else 0
                if (continued >= done.size).any():
                    raise ValueError("it is of another number of labels")
        if path is not None or done.any():
            origin = "finished labels" if path is None else path.name
            self.folder.log(f"resuming from {origin}: {np.count_nonzero(done)} of {plural(done.size, 'label')} done")
        elif restore:
            self.folder.log("no checkpoint was written yet; starting from the beginning")
        trainable = self.problem.trainable
        with mpi.agreed(self.comm, f"writing {self.folder.checkpoints}"):
            for label in np.flatnonzero(~trainable & ~done).tolist() if self.comm.rank == 0 else ():
                constant = SparseWeightsOf(np.zeros(0, np.int64), np.zeros(0), 1.0 if self.n_positive[label] else -1.0)
                self._write_label(Finished(label, constant, 0.0, DEGENERATE, 0, 0.0, []))
        places = np.flatnonzero(~done[continued])
        waiting = np.setdiff1d(np.flatnonzero(trainable & ~done), continued)
        number, n_groups = self.problem.group
        mine = labels_of_group(waiting, self.n_positive, number, n_groups).tolist()
        return mine, places[number::n_groups].tolist(), path

    def take_over(self, earlier: Earlier) -> None:
        """Collective. Write the models that labels keep from an earlier run, as they are there."""
        model, done = earlier.model, self.results.done
        names = [name.removeprefix("labels/") for name in NUMBERS[1:] if name != "labels/gap" or self.certified]
        taken = [label for label in earlier.kept if not done[label]] if self.comm.rank == 0 else []
        with mpi.agreed(self.comm, f"writing {self.folder.checkpoints}"):
            for label in taken:
                before = earlier.kept[label]
                numbers = np.array([model.bias[before], *(model.labels[name][before] for name in names)])
                columns, w = model.row(before) if model.sparse else (None, model.rows(np.array([before]))[0])
                self.results.add(label, numbers, columns, w, b"")
        self.n_done += len(taken)
        self.share_done += float(self.shares[taken].sum())

    def keep(self, finished: list[Finished]) -> None:
        """Collective over the group. Write the labels that are done."""
        with mpi.agreed(self.rows.comm, f"writing {self.folder.checkpoints}"):
            for label in finished if self.leads else ():
                self._write_label(label)

    def _write_label(self, done: Finished) -> None:
        """Write one label. Local; raises OSError."""
        n_columns, columns = self.rows.n_columns - self.rows.bias, None
        if isinstance(done.w, SparseWeightsOf):
            columns, w, bias = done.w
        else:
            w, bias = done.w[:n_columns], done.w[-1] if self.rows.bias else 0.0
        numbers = [bias, done.f, done.steps, done.status, done.visited, *([done.gap or 0.0] if self.certified else [])]
        lines = self.history.lines(self.problem.names[done.label], done.history)
        self.results.add(done.label, np.array(numbers, dtype=np.float64), columns, w, lines)
        self.n_done += 1
        self.share_done += float(self.shares[done.label])

    def flush(self, to_disk: bool = False) -> None:
        """Collective. Write what the labels' records still have in memory; the model made of them next goes to the disk."""
        with mpi.agreed(self.comm, f"writing {self.folder.checkpoints}"):
            self.results.flush(to_disk)

    def save(self) -> None:
        """Collective. Write a checkpoint of everything that the labels' records do not hold."""
        self.flush(to_disk=True)
        labels = self.solver.pack()
        mine = [(label.numbers.size, label.history.size, label.w.dtype.str) for label in labels if self.leads]
        sizes = self.comm.allgather(mine)
        first = sum(map(len, sizes[: self.comm.rank]))
        once = {"elapsed": np.array([[self.driver.seconds]])}
        if self.chunk_values:
            once["chunk"] = np.array([[float(self.chunk_values)]])
        arrays = {name: Slab(values.shape, values.dtype.str) for name, values in once.items()}
        if packed := [size for part in sizes for size in part]:
            n, (n_numbers, n_steps, precisions) = len(packed), zip(*packed, strict=True)
            arrays["W"] = arrays["best"] = Slab((n, self.rows.n_columns), max(precisions))  # "<f8" if any
            arrays |= {"rows": Slab((n, self.rows.n_global), "|u1"), "numbers": Slab((n, max(n_numbers)), "<f8")}
            arrays["steps"] = Slab((n, max(n_steps)), "<f8")

        def fill(out: CheckpointWriter) -> None:
            for row, label in enumerate(labels if self.leads else (), first):
                for name, values in zip(("W", "best", "rows", "numbers"), label[:4], strict=True):
                    out.write_row(name, row, values)
                steps = np.full(arrays["steps"].shape[1], np.nan)
                steps[: label.history.size] = label.history.reshape(-1)
                out.write_row("steps", row, steps)
            for name, values in once.items() if self.comm.rank == 0 else ():
                out.write_rows(name, 0, values)

        self.checkpoints.save(arrays, fill)

    def restore(self, place: int, path: Path | None) -> None:
        """Collective over the group. Give the solver back the label at `place` of a checkpoint."""
        with mpi.agreed(self.rows.comm, f"reading {path}"):
            if not self.solver.packs or path is None:
                raise ValueError("labels in training, of a method that has none in its checkpoints")
            with reading_checkpoint(path) as file:
                w, best, rows, numbers = (file[name][place] for name in ("W", "best", "rows", "numbers"))
                steps = file["steps"][place].reshape(-1, len(HISTORY))
        self.solver.unpack(Packed(w, best, rows, numbers, steps))
