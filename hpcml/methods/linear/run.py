"""Files of a training run: finished labels, checkpoints, and the model.

The columns of the features are stored before training; model.h5 and history.csv are written from the labels' records at the end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcml import mpi
from hpcml.data.compact import ColumnMap
from hpcml.errors import DataError
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import DAMAGE, map_dataset, open_stamped, stamp
from hpcml.files.slabs import Slab, new_file, open_for_update
from hpcml.files.untrusted import text_of
from hpcml.kernels import elementwise
from hpcml.leave_one_out.cells import constant_counts, pack_cells
from hpcml.leave_one_out.decide import decide, order_by_frequency
from hpcml.log import plural, size
from hpcml.methods.linear.layout import labels_of_group
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.settings import Chosen
from hpcml.methods.linear.solver import CPU_SECONDS, DEGENERATE, HISTORY, Finished, Packed, Solver, SparseWeightsOf
from hpcml.model.linear import describe_model, is_smaller_sparse, model_slabs, training_attributes
from hpcml.model.raw_input import RawInput
from hpcml.model.trained import LEAVE_ONE_OUT, THRESHOLDS
from hpcml.model.training_keys import training_keys
from hpcml.run.checkpoint import Checkpoints, CheckpointWriter, reading_checkpoint
from hpcml.run.driver import Driver, Job
from hpcml.run.folder import RESULTS, RunFolder
from hpcml.run.results import Results
from hpcml.slices import StopCheck

if TYPE_CHECKING:
    from hpcml.methods.retrain import PreviousRun

NUMBERS = "bias", "labels/f_min", "labels/steps", "labels/status", "labels/visited", "labels/gap"  # of `Results`; gap: if certified


# Power of a label's positive rows by which its cost grows, unless the method defines it. Remaining seconds of `dual`, estimated 6,
# 18 and 60 s after the start with 404,056 labels on 89,952 rows (convert synthetic text):
#     GROWTH  0: 15124, 9859, 6273        0.25: 2801, 2731, 2760        0.5: 504, 699, 1074
# On 34,914 rows, 72,374 labels, 2403 s: 2355 estimated after 48 s with 0, 1945 with 0.25, both within 10 % after 480 s.
GROWTH = 0.25


def shares_of(problem: LabelProblem, options: Any) -> np.ndarray:
    n_positive, costs_of = problem.n_positive.astype(np.float64), problem.method.costs
    costs = elementwise.power(n_positive, GROWTH) if costs_of is None else costs_of(n_positive, options)
    costs = np.where(problem.trainable, costs, 0.0)
    shares: np.ndarray = costs / max(costs.sum(), 1e-300)
    return shares


def check_disk(folder: RunFolder, problem: LabelProblem, options: LinearOptions) -> None:
    """Warn if the disk may not hold both the model and `Results`. Collective."""
    if options.drop is not None:
        return
    comm, path, n_labels = folder.comm, folder.checkpoints, len(problem.names)
    n_columns, weight_bytes = problem.rows.n_columns - problem.rows.bias, problem.objective.weight_type.itemsize
    nbytes = n_labels * n_columns * weight_bytes
    with folder.discard_on_error(), mpi.agreed(comm, f"looking for room in {path}"):
        if comm.rank == 0:
            written = sum(file.stat().st_size for file in path.glob(RESULTS))  # of a resumed run
            if (free := shutil.disk_usage(path).free) < 2 * nbytes - written:
                folder.log(
                    f"warning: {path}: the disk has {size(free)} left; the model needs at most {size(2 * nbytes)} until it is "
                    f"written (2 × {n_labels:,} labels × {n_columns:,} columns × {weight_bytes} bytes), less if weights are 0; "
                    "--drop 0.1 discards small weights. If the disk is full, free some space and continue with --resume"
                )


def check_origin(attributes: Mapping[str, object], origin: Mapping[str, object]) -> None:
    for key, value in origin.items():
        if not np.array_equal(np.asarray(attributes.get(key)), np.asarray(value)):
            raise DataError(
                f"this run was started on other data ({key} {attributes.get(key)}, not {value}); resume with the same file"
            )


class LabelRun(Job):
    solver = Solver()
    n_done = 0.0  # labels that this rank has finished
    titles: Any = None  # on rank 0: label titles, keys of the training rows, and the raw input
    keys: Any = None
    raw_input: Any = None

    def __init__(
        self,
        driver: Driver,
        problem: LabelProblem,
        folder: RunFolder,
        options: LinearOptions,
        origin: dict[str, object],
        chosen: Chosen | None,
        has_scores: bool,
    ) -> None:
        self.driver, self.problem, self.rows, self.labels = driver, problem, problem.rows, problem.labels
        self.comm, self.options, self.folder = driver.comm, options, folder
        n_columns, self.certified = self.rows.n_columns - self.rows.bias, problem.method.certified
        weight_type = problem.objective.weight_type
        self.results = Results(self.comm, folder.checkpoints, self.labels.size, weight_type.str, options.drop or 0.0)
        self.leads = self.rows.comm.rank == 0  # writes for its group
        self.origin, self.chosen, self.has_scores = origin, chosen, has_scores
        self.must_match = origin | {"shape": [len(problem.names), n_columns]}
        self.n_positive, self.total = problem.n_positive, self.labels.size
        self.shares, self.share_done = shares_of(problem, options), 0.0  # share_done: by this rank
        self.checkpoints = Checkpoints(self.comm, folder.checkpoints, folder.log)
        self.history, self.cpu_seconds = problem.method.history, 0.0  # until labels were last finished
        self.chunk_values = 0  # values per chunk of streamed rows

    def start(self, unfinished: bool, columns: ColumnMap, check_stop: StopCheck) -> None:
        """Store the columns of the features, or check those of an unfinished run. Collective; raises DataError."""
        comm, folder, problem, path = self.comm, self.folder, self.problem, self.folder.start
        with folder.discard_on_error(), mpi.agreed(comm, f"reading {problem.dataset.path}"):
            if comm.rank == 0:
                self.titles = problem.dataset.label_titles(self.labels)
                self.keys = None if self.options.no_id_hashes else training_keys(problem.dataset, problem.split)
                self.raw_input = RawInput.of_dataset(problem.dataset)
        if unfinished:
            mpi.run_on_root(comm, f"reading {path}", self._check_start)
            return
        with folder.discard_on_error(), temporary_path(comm, path, overwrite=True) as temporary:
            with mpi.groups_agreed(comm):
                column_of, factors = columns.tables(problem.loaded_by, check_stop)
            with mpi.agreed(comm, f"writing {path}"):
                problem.dataset.check_unchanged()  # after the last read of the rows
                if comm.rank == 0:
                    with open_for_update(temporary, new=True, target=path) as file:
                        stamp(file, "checkpoint")
                        file.attrs["origin"] = json.dumps(self.must_match, default=int)
                        file["columns"], file["factors"] = column_of, factors

    def _check_start(self) -> None:
        path = self.folder.start
        try:
            with open_stamped(path, "checkpoint", "hpcml train") as file:
                attributes = dict(json.loads(text_of(file, "origin")))
                is_valid = file["columns"].shape == file["factors"].shape == (self.rows.n_features,)
        except (DataError, *DAMAGE):
            is_valid = False
        if not is_valid:
            raise DataError(f"{path}: the unfinished model is damaged; start again with --force")
        check_origin(attributes, self.must_match)

    def begin(self, restore: bool) -> tuple[list[int], list[int], Path | None]:
        """Restore the run, and write constant models. Collective; raises DataError if every checkpoint is damaged.

        Return the waiting labels of this group, the indices of its labels in a checkpoint, and the checkpoint.
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
                    raise ValueError("it has a different number of labels")
        if path is not None or done.any():
            origin = "finished labels" if path is None else path.name
            self.folder.log(f"resuming from {origin}: {np.count_nonzero(done)} of {plural(done.size, 'label')} done")
        elif restore:
            self.folder.log("no checkpoint was written yet; starting from the beginning")
        trainable = self.problem.trainable
        with mpi.agreed(self.comm, f"writing {self.folder.checkpoints}"):
            for label in np.flatnonzero(~trainable & ~done).tolist() if self.comm.rank == 0 else ():
                constant = SparseWeightsOf(np.zeros(0, np.int64), np.zeros(0), 1.0 if self.n_positive[label] else -1.0)
                positive = bool(self.n_positive[label])
                scores = constant_counts(self.rows.n_global, positive) if self.has_scores else b""
                self._write_label(Finished(label, constant, 0.0, DEGENERATE, 0, 0.0, [], scores=scores))
        in_training = np.flatnonzero(~done[continued])
        waiting = np.setdiff1d(np.flatnonzero(trainable & ~done), continued)
        number, n_groups = self.problem.group

        def key_of(label: int) -> Hashable:
            has_copies = self.problem.method.copies and self.rows.comm.size == 1
            return self.rows.rows_of(self.labels[label]).tobytes() if has_copies else label

        own = labels_of_group(waiting, self.n_positive, number, n_groups, key_of).tolist()
        return own, in_training[number::n_groups].tolist(), path

    def copy_unchanged(self, previous: PreviousRun) -> None:
        """Copy the models of unchanged labels of a previous run. Collective."""
        model, done = previous.model, self.results.done
        names = [name.removeprefix("labels/") for name in NUMBERS[1:] if name != "labels/gap" or self.certified]
        labels = [label for label in previous.unchanged if not done[label]] if self.comm.rank == 0 else []
        with mpi.agreed(self.comm, f"writing {self.folder.checkpoints}"):
            for label in labels:
                row = previous.unchanged[label]
                numbers = np.array([model.bias[row], *(model.labels[name][row] for name in names)])
                scores = pack_cells(*model.scores.row(row)) if self.has_scores and model.scores is not None else b""
                self.results.add(label, numbers, *model.row(row), b"", scores)
        self.n_done += len(labels)
        self.share_done += float(self.shares[labels].sum())

    def keep(self, finished: list[Finished]) -> None:
        before, self.cpu_seconds = self.cpu_seconds, self.driver.cpu_seconds
        with mpi.agreed(self.rows.comm, f"writing {self.folder.checkpoints}"):
            for label in finished if self.leads else ():
                self._write_label(label, (self.cpu_seconds - before) / len(finished))

    def _write_label(self, done: Finished, cpu_seconds: float = 0.0) -> None:
        n_columns, columns = self.rows.n_columns - self.rows.bias, None
        if isinstance(done.w, SparseWeightsOf):
            columns, w, bias = done.w
        else:
            w, bias = done.w[:n_columns], done.w[-1] if self.rows.bias else 0.0
        numbers = [bias, done.f, done.steps, done.status, done.visited, *([done.gap or 0.0] if self.certified else [])]
        lines = self.history.lines(self.problem.names[done.label], done.history, cpu_seconds)
        self.results.add(done.label, np.array(numbers, dtype=np.float64), columns, w, lines, done.scores)
        self.n_done += 1
        self.share_done += float(self.shares[done.label])

    def flush(self, to_disk: bool = False) -> None:
        with mpi.agreed(self.comm, f"writing {self.folder.checkpoints}"):
            self.results.flush(to_disk)

    def save(self) -> None:
        """Write a checkpoint of everything that is not in the labels' records. Collective."""
        self.flush(to_disk=True)
        labels = self.solver.pack()
        sizes = self.comm.allgather([(label.numbers.size, label.history.size, label.w.dtype.str) for label in labels if self.leads])
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

    def restore(self, row: int, path: Path | None) -> None:
        """Restore the label in a row of a checkpoint. Collective over the group."""
        with mpi.agreed(self.rows.comm, f"reading {path}"):
            if not self.solver.packs or path is None:
                raise ValueError("it has labels in training, which this method cannot restore")
            with reading_checkpoint(path) as file:
                w, best, rows, numbers = (file[name][row] for name in ("W", "best", "rows", "numbers"))
                steps = file["steps"][row].reshape(-1, len(HISTORY))
        self.solver.unpack(Packed(w, best, rows, numbers, steps))

    def write_model(self) -> None:
        """Write history.csv and the model of all labels, and remove the checkpoints. Collective."""
        comm, folder, problem, options, results = self.comm, self.folder, self.problem, self.options, self.results
        results.share_index()
        risk, tables, slabs = problem.objective, dict[str, np.ndarray](), dict[str, Slab]()
        about = training_attributes({"method": problem.method_name, "split": problem.split} | risk.describe(options))
        about |= {**self.origin, **risk.about, **({} if self.chosen is None else self.chosen.about)}
        about |= dict(zip(THRESHOLDS, ("label", LEAVE_ONE_OUT, problem.split), strict=True)) if self.has_scores else {}
        columns = {} if self.chosen is None else {f"labels/{name}": values for name, values in self.chosen.columns.items()}
        n_weights, width = int(results.index[:, 2].sum()), risk.row_width(self.rows.n_columns - self.rows.bias)
        precision = results.weight_type.str
        is_sparse = "combination" in about or is_smaller_sparse(self.total, width, n_weights, precision)
        with mpi.agreed(comm, f"reading {folder.start}"):
            if comm.rank == 0:
                with open_stamped(folder.start, "checkpoint", "hpcml train") as file:
                    tables = {name: map_dataset(folder.start, file[name]) for name in ("columns", "factors")}
                sizes = (self.total, self.rows.n_features, width, precision, self.certified, n_weights if is_sparse else None)
                n_cells = int(results.index[:, 4].sum()) if self.has_scores else None
                optional = [name.removeprefix("labels/") for name in columns] + ["threshold"] * self.has_scores
                slabs = model_slabs(*sizes, optional, n_cells)
                tables |= columns | {"labels/n_positive": problem.n_positive}
        describe = partial(
            describe_model,
            about=training_attributes(dict(sorted(about.items()))),
            label_names=problem.names,
            n_columns=width if is_sparse else None,
            label_titles=self.titles,
            keys=self.keys,
            raw_input=self.raw_input,
        )
        header = ",".join(("label", *self.history.columns, CPU_SECONDS)) + "\n"
        # The model gets its name, which marks the run as finished, after the history.
        with new_file(comm, folder.model, overwrite=True) as out, new_file(comm, folder.history, overwrite=True) as history:
            out.layout(slabs, describe)
            history.attach({})
            with mpi.agreed(comm, f"writing {folder.model}"):
                for name, values in tables.items():
                    out.write(name, 0, values)
            names = NUMBERS if self.certified else NUMBERS[:-1]
            first, counts = results.write_labels(out, names, history, header.encode())
            if self.has_scores:
                order = order_by_frequency(problem.n_positive, problem.names)
                decision = decide(comm, counts, first, problem.n_positive, self.rows.n_global, order)
                with mpi.agreed(comm, f"writing {folder.model}"):
                    out.write("labels/threshold", first, decision.thresholds)
        with mpi.agreed(comm, f"finishing {folder.model}"):
            if comm.rank == 0:
                folder.remove_checkpoints()
