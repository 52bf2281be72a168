"""The model file of a run: made before training, filled as labels finish, and given its name at
the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.compact import ColumnMap
from hpcml.errors import DataError
from hpcml.files.atomic import sync, temporary_path
from hpcml.files.hdf5 import DAMAGE, open_stamped
from hpcml.files.slabs import Slab, SlabFile
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.settings import Chosen
from hpcml.model.linear import OBJECTIVE, describe_model, model_slabs
from hpcml.run.folder import RunFolder
from hpcml.run.sparse_weights import SparseWeights
from hpcml.slices import Look


@mpi.collective
def open_model(
    comm: mpi.Comm,
    folder: RunFolder,
    problem: LabelProblem,
    options: LinearOptions,
    origin: dict[str, object],
    unfinished: bool,
    columns: ColumnMap,
    look: Look,
    chosen: Chosen | None,
) -> SlabFile:
    """Collective over `comm`. The model file to fill: a new one, or the unfinished one of a run to
    continue; without a W that will be sparse.

    Raises DataError if that is damaged or belongs to other data, and what `look` does.
    """
    rows = problem.rows
    sizes = (len(problem.names), rows.n_features, rows.n_columns - rows.bias)
    optional = () if chosen is None else tuple(chosen.columns)
    slabs = model_slabs(*sizes, problem.objective.weight_type.str, problem.method.certified, optional=optional)
    if options.drop is not None:
        del slabs["W"]
    model = SlabFile(comm, folder.model_part, folder.model_part)
    if unfinished:
        with mpi.agreed(comm, f"reading {folder.model_part}"):
            offsets = model_offsets(folder.model_part, origin, slabs)
        model.attach(offsets)
        return model

    def describe(file: h5py.File) -> None:
        about = {"method": problem.method.name, "loss": options.loss, "lambda": problem.objective.lam, "split": problem.split}
        about |= {"epsilon": options.epsilon, "dormant": problem.objective.dormant}
        about |= {"positive_weight": options.positive_weight}
        if not options.losses:  # there is no objective
            about = {name: value for name, value in about.items() if name not in OBJECTIVE}
        about |= {**origin, **problem.objective.about, **({} if chosen is None else chosen.about)}
        describe_model(file, about, problem.names, label_titles=problem.dataset.label_titles(problem.labels))

    with folder.discarded_on_error(), temporary_path(comm, folder.model_part, overwrite=True) as model.path:
        model.layout(slabs, describe)
        with mpi.groups_agreed(comm):
            column_of, factors = columns.tables(problem.loaded_by, look)
        with mpi.agreed(comm, f"writing {folder.model_part}"):
            problem.dataset.check_unchanged()  # the rows have been read for the last time
            if comm.rank == 0:
                model.write("columns", 0, column_of)
                model.write("factors", 0, factors)
                for name, values in ({} if chosen is None else chosen.columns).items():
                    model.write(f"labels/{name}", 0, values)
    return model


def model_offsets(path: Path, origin: dict[str, object], slabs: dict[str, Slab]) -> dict[str, tuple[int, Slab]]:
    """Where the slabs of an unfinished model lie, for `SlabFile.attach`.

    Raises DataError if the file is damaged or belongs to other data than `origin` tells.
    """
    try:
        with open_stamped(path, "model", "hpcml train") as file:
            found = {key: file.attrs[key] for key in origin} | ({"shape": file["W"].shape} if "W" in slabs else {})
            sound = all(Slab(file[name].shape, file[name].dtype.str) == slab for name, slab in slabs.items())
            offsets = {name: (file[name].id.get_offset(), slab) for name, slab in slabs.items()}
        sound = sound and all(offset or 0 in slab.shape for offset, slab in offsets.values())
    except (DataError, *DAMAGE):
        raise DataError(f"{path}: the unfinished model is damaged; start again with --force") from None
    for key, value in (origin | ({"shape": slabs["W"].shape} if "W" in slabs else {})).items():
        if np.shape(found[key]) != np.shape(cast(Any, value)) or found[key] != value:
            raise DataError(f"this run was started on other data ({key} {found[key]}, not {value}); resume with the same file")
    if not sound:
        raise DataError(f"{path}: the unfinished model is damaged; start again with --force")
    return offsets


def sparse_weights(comm: mpi.Comm, folder: RunFolder, problem: LabelProblem, options: LinearOptions) -> SparseWeights | None:
    """The file of the labels' weights where the model is to be sparse. Local."""
    if options.drop is None:
        return None
    n_columns, precision = problem.rows.n_columns - problem.rows.bias, problem.objective.weight_type.str
    n_columns = problem.objective.row_width(n_columns)
    return SparseWeights(comm, folder.checkpoints, len(problem.names), n_columns, precision, options.drop)


@mpi.collective
def finish(comm: mpi.Comm, folder: RunFolder) -> None:
    """Collective over `comm`. Give the complete model its name and drop the checkpoints."""
    with mpi.agreed(comm, f"finishing {folder.model}"):
        if comm.rank == 0:
            sync(folder.model_part)
            folder.model_part.replace(folder.model)
            folder.finish()
            sync(folder.path)
            folder.drop_checkpoints()
