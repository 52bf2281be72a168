"""The model file of a run: made before training, filled as labels finish, named at the end."""

from __future__ import annotations

import shutil
from functools import partial
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
from hpcml.log import size
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.settings import Chosen
from hpcml.model.linear import OBJECTIVE, describe_model, model_slabs
from hpcml.model.training_keys import training_keys
from hpcml.run.folder import RunFolder
from hpcml.run.sparse_weights import SparseWeights
from hpcml.slices import Look

LARGE_MODEL = 2 * 10**9  # bytes: above it, training says how large the model will be


def check_disk(folder: RunFolder, problem: LabelProblem, options: LinearOptions) -> None:
    """Collective over its ranks. Say how large a model that is not sparse will be, if it is large.

    Raises DataError if the disk has no room for it.
    """
    if options.drop is not None:
        return
    comm, path, n_labels = folder.comm, folder.model_part, len(problem.names)
    n_columns, weight_bytes = problem.rows.n_columns - problem.rows.bias, problem.objective.weight_type.itemsize
    nbytes = n_labels * n_columns * weight_bytes
    what = f"the model will have {size(nbytes)} ({n_labels:,} labels × {n_columns:,} columns × {weight_bytes} bytes)"
    advice = "--drop 0.1 leaves out small weights, most of them"
    if nbytes > LARGE_MODEL:
        folder.log(f"warning: {what}; {advice}")
    with folder.discarded_on_error(), mpi.agreed(comm, f"looking for room in {path.parent}"):
        if comm.rank == 0:
            written = 512 * path.stat().st_blocks if path.exists() else 0  # of a run that is continued
            if (free := shutil.disk_usage(path.parent).free) < nbytes - written:
                raise DataError(f"{path.parent}: {what}, but the disk has {size(free)} left; {advice}")


def open_model(
    folder: RunFolder,
    problem: LabelProblem,
    options: LinearOptions,
    origin: dict[str, object],
    unfinished: bool,
    columns: ColumnMap,
    look: Look,
    chosen: Chosen | None,
) -> SlabFile:
    """Collective over the folder's ranks. The model file to fill, without a W that will be sparse.

    It is the `unfinished` one of a run to continue, or a new one. Raises DataError if that is
    damaged or belongs to other data, and what `look` does.
    """
    comm, rows, columns_of = folder.comm, problem.rows, {} if chosen is None else chosen.columns
    sizes = (len(problem.names), rows.n_features, rows.n_columns - rows.bias)
    slabs = model_slabs(*sizes, problem.objective.weight_type.str, problem.method.certified, optional=tuple(columns_of))
    if options.drop is not None:
        del slabs["W"]
    model = SlabFile(comm, folder.model_part, folder.model_part)
    if unfinished:
        with mpi.agreed(comm, f"reading {folder.model_part}"):
            offsets = model_offsets(folder.model_part, origin, slabs)
        model.attach(offsets)
        return model
    with folder.discarded_on_error(), temporary_path(comm, folder.model_part, overwrite=True) as model.path:
        model.layout(slabs, partial(_describe, problem, options, origin, chosen))
        with mpi.groups_agreed(comm):
            column_of, factors = columns.tables(problem.loaded_by, look)
        with mpi.agreed(comm, f"writing {folder.model_part}"):
            problem.dataset.check_unchanged()  # the rows have been read for the last time
            columns_of = {f"labels/{name}": values for name, values in columns_of.items()}
            for name, values in {"columns": column_of, "factors": factors, **columns_of}.items() if comm.rank == 0 else ():
                model.write(name, 0, values)
    return model


def _describe(
    problem: LabelProblem, options: LinearOptions, origin: dict[str, object], chosen: Chosen | None, file: h5py.File
) -> None:
    """Write the attributes and names of a new model."""
    risk = problem.objective
    about = {"method": problem.method_name, "loss": options.loss, "lambda": risk.lam, "split": problem.split}
    about |= {"epsilon": options.epsilon, "dormant": risk.dormant, "positive_weight": options.positive_weight}
    if not options.losses:  # there is no objective
        about = {name: value for name, value in about.items() if name not in OBJECTIVE}
    if options.scale not in (None, "none"):
        about["scale"] = options.scale
    about |= {**origin, **risk.about, **({} if chosen is None else chosen.about)}
    titles, keys = problem.dataset.label_titles(problem.labels), training_keys(problem.dataset, problem.split)
    describe_model(file, about, problem.names, label_titles=titles, keys=keys)


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


def sparse_weights(folder: RunFolder, problem: LabelProblem, options: LinearOptions) -> SparseWeights | None:
    """The file of the labels' weights where the model is to be sparse. Local."""
    if options.drop is None:
        return None
    risk, n_columns = problem.objective, problem.objective.row_width(problem.rows.n_columns - problem.rows.bias)
    return SparseWeights(folder.comm, folder.checkpoints, len(problem.names), n_columns, risk.weight_type.str, options.drop)


def finish(folder: RunFolder) -> None:
    """Collective over its ranks. Give the complete model its name and drop the checkpoints."""
    with mpi.agreed(folder.comm, f"finishing {folder.model}"):
        if folder.comm.rank == 0:
            sync(folder.model_part)
            folder.model_part.replace(folder.model)
            folder.finish()
            sync(folder.path)
            folder.drop_checkpoints()
