"""The model file of a run: what it says of the features is stored before training, the rest is written at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from itertools import chain

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.compact import ColumnMap
from hpcml.errors import DataError
from hpcml.files.atomic import temporary_path, write_whole
from hpcml.files.hdf5 import DAMAGE, map_dataset, open_stamped, stamp
from hpcml.files.slabs import Slab, editing, new_file
from hpcml.files.untrusted import text_of
from hpcml.log import size
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.settings import Chosen
from hpcml.methods.linear.solver import History
from hpcml.model.linear import OBJECTIVE, about_of, describe_model, model_slabs
from hpcml.model.training_keys import training_keys
from hpcml.run.folder import RESULTS, RunFolder
from hpcml.run.results import Results
from hpcml.slices import Look

NUMBERS = (
    "bias",
    "labels/f_min",
    "labels/steps",
    "labels/status",
    "labels/visited",
    "labels/gap",
)  # of `Results`; gap: if certified
LARGE_MODEL = 2 * 10**9  # bytes: above it, training says how large the model will be


def check_disk(folder: RunFolder, problem: LabelProblem, options: LinearOptions) -> None:
    """Collective over its ranks. Say how large a model that is not sparse will be, if it is large.

    Raises DataError if the disk has no room for it. At the end it is there twice for a moment: in `Results`, too.
    """
    if options.drop is not None:
        return
    comm, path, n_labels = folder.comm, folder.checkpoints, len(problem.names)
    n_columns, weight_bytes = problem.rows.n_columns - problem.rows.bias, problem.objective.weight_type.itemsize
    nbytes = n_labels * n_columns * weight_bytes
    what = f"the model will have {size(nbytes)} ({n_labels:,} labels × {n_columns:,} columns × {weight_bytes} bytes)"
    advice = "--drop 0.1 leaves out small weights, most of them"
    if nbytes > LARGE_MODEL:
        folder.log(f"warning: {what}; {advice}")
    with folder.discarded_on_error(), mpi.agreed(comm, f"looking for room in {path}"):
        if comm.rank == 0:
            written = sum(file.stat().st_size for file in path.glob(RESULTS))  # of a run that is continued
            if (free := shutil.disk_usage(path).free) < 2 * nbytes - written:
                raise DataError(f"{path}: {what}, and takes twice that at the end, but the disk has {size(free)} left; {advice}")


def check_origin(found: Mapping[str, object], origin: Mapping[str, object]) -> None:
    """Raise DataError if a run, with the attributes `found`, is of other data than `origin` tells. Local."""
    for key, value in origin.items():
        if not np.array_equal(np.asarray(found.get(key)), np.asarray(value)):
            raise DataError(f"this run was started on other data ({key} {found.get(key)}, not {value}); resume with the same file")


class ModelFile:
    """The model file of a run, but for the labels' results."""

    def __init__(
        self, folder: RunFolder, problem: LabelProblem, options: LinearOptions, origin: dict[str, object], chosen: Chosen | None
    ) -> None:
        """Collective over the folder's ranks: rank 0 reads the dataset."""
        self.folder, self.problem, self.comm = folder, problem, folder.comm
        self.certified, self.sparse, risk = problem.method.certified, options.drop is not None, problem.objective
        self.columns = {} if chosen is None else {f"labels/{name}": values for name, values in chosen.columns.items()}
        self.shape = [len(problem.names), problem.rows.n_columns - problem.rows.bias]
        self.origin = origin | {"shape": self.shape}
        about = {"method": problem.method_name, "loss": options.loss, "lambda": risk.lam, "split": problem.split}
        about |= {"epsilon": options.epsilon, "dormant": risk.dormant, "positive_weight": options.positive_weight}
        if not options.losses:  # there is no objective
            about = {name: value for name, value in about.items() if name not in OBJECTIVE}
        if options.scale not in (None, "none"):
            about["scale"] = options.scale
        about |= {**origin, **risk.about, **({} if chosen is None else chosen.about)}
        self.about = about_of(dict(sorted(about.items()))) if self.sparse else about
        with folder.discarded_on_error(), mpi.agreed(self.comm, f"reading {problem.dataset.path}"):
            if self.comm.rank == 0:
                self.titles = problem.dataset.label_titles(problem.labels)
                self.keys = training_keys(problem.dataset, problem.split)

    def start(self, unfinished: bool, columns: ColumnMap, look: Look) -> None:
        """Collective over the folder's ranks. Store what the model says of the features, unless the run is `unfinished`.

        Raises DataError if an unfinished one is damaged or has other data, and what `look` does.
        """
        comm, path = self.comm, self.folder.start
        if unfinished:
            mpi.run_on_root(comm, f"reading {path}", self._check_origin)
            return
        with self.folder.discarded_on_error(), temporary_path(comm, path, overwrite=True) as temporary:
            with mpi.groups_agreed(comm):
                column_of, factors = columns.tables(self.problem.loaded_by, look)
            with mpi.agreed(comm, f"writing {path}"):
                self.problem.dataset.check_unchanged()  # the rows have been read for the last time
                if comm.rank == 0:
                    with editing(temporary, new=True, target=path) as file:
                        stamp(file, "checkpoint")
                        file.attrs["origin"] = json.dumps(self.origin, default=int)
                        file["columns"], file["factors"] = column_of, factors

    def _check_origin(self) -> None:
        """Raise DataError if the unfinished run is damaged or has other data. Local."""
        path = self.folder.start
        try:
            with open_stamped(path, "checkpoint", "hpcml train") as file:
                found = dict(json.loads(text_of(file, "origin")))
                sound = file["columns"].shape == file["factors"].shape == (self.problem.rows.n_features,)
        except (DataError, *DAMAGE):
            sound = False
        if not sound:
            raise DataError(f"{path}: the unfinished model is damaged; start again with --force")
        check_origin(found, self.origin)

    def write(self, results: Results) -> None:
        """Collective over the folder's ranks. Write history.csv and the model of all labels, and drop the checkpoints."""
        comm, folder, problem = self.comm, self.folder, self.problem
        results.share_index()
        tables: dict[str, np.ndarray] = {}
        slabs: dict[str, Slab] = {}
        n_weights = int(results.index[:, 2].sum()) if self.sparse else None
        with mpi.agreed(comm, f"reading {folder.start}"):
            if comm.rank == 0:
                with open_stamped(folder.start, "checkpoint", "hpcml train") as file:
                    tables = {name: map_dataset(folder.start, file[name]) for name in ("columns", "factors")}
                sizes = (self.shape[0], problem.rows.n_features, results.n_columns, results.weight_type.str, self.certified)
                slabs = model_slabs(*sizes, n_weights, [name.removeprefix("labels/") for name in self.columns])
                tables |= self.columns | {"labels/n_positive": problem.n_positive}

        def describe(file: h5py.File) -> None:
            describe_model(file, self.about, problem.names, results.n_columns if self.sparse else None, self.titles, self.keys)

        with new_file(comm, folder.model, overwrite=True) as out:
            out.layout(slabs, describe)
            with mpi.agreed(comm, f"writing {folder.model}"):
                for name, values in tables.items():
                    out.write(name, 0, values)
            results.write_labels(out, NUMBERS if self.certified else NUMBERS[:-1])
            with mpi.agreed(comm, f"writing {folder.history}"):  # before the model gets its name, which says that the run is done
                if comm.rank == 0:
                    write_whole(folder.history, chain([(problem.method.history or History()).header], results.texts()))
        with mpi.agreed(comm, f"finishing {folder.model}"):
            if comm.rank == 0:
                folder.drop_checkpoints()
