"""Every kind of model that `predict` and `evaluate` take: a file, or the run folder around it."""

from __future__ import annotations

from pathlib import Path

from hpcml import mpi
from hpcml.errors import FEW, DataError
from hpcml.files.hdf5 import DAMAGE, open_checked, open_stamped
from hpcml.files.untrusted import check_parts
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model

FILE, CONFIG = "model.h5", "config.toml"  # of a run folder


def model_file(path: Path | str) -> Path:
    """The file of a model, or of its folder. Raises DataError for a folder without one. Local."""
    path = Path(path)
    if not path.is_dir() or (path / FILE).exists():
        return path / FILE if path.is_dir() else path
    if (path / CONFIG).exists():
        raise DataError(f"{path}: this run is not finished, so it has no model yet; continue it with --resume")
    runs = sorted(found.parent.name for found in path.glob(f"*/{FILE}"))
    if runs:
        raise DataError(f"{path}: a folder of runs; name one of them: {', '.join(runs[:FEW])}{', …' if len(runs) > FEW else ''}")
    raise DataError(f"{path}: a folder without a model ({FILE}); expected a model or the folder of a run of `hpcml train`")


def open_model(path: Path | str) -> Model | ClassifierModel:
    """The model in a file or a run folder, of the kind that its stamp says. Raises DataError."""
    path = model_file(path)
    with open_stamped(path, ("model", "classifier"), "hpcml train") as file:
        return ClassifierModel(path, file) if file.attrs["hpcml-format"] == ClassifierModel.kind else Model(path, file)


def kind_of(path: Path | str) -> str:
    """The kind of a file of ours, by its stamp; "" if there is none to be read. Local."""
    path = model_file(path)
    try:
        with open_checked(path, "") as file:
            check_parts(file)
            kind = file.attrs.get("hpcml-format")
    except (DataError, *DAMAGE):
        return ""  # whoever opens it says what is wrong
    return kind if isinstance(kind, str) else ""


def share_model(comm: mpi.Comm, path: Path | str) -> Model | ClassifierModel:
    """Collective over `comm`. The model in a file; one rank reads classifiers. DataError."""
    model: Model | ClassifierModel | None = None
    with mpi.agreed(comm, f"opening {path}"):
        if comm.rank == 0:
            model = open_model(path)
    if comm.bcast(isinstance(model, ClassifierModel)):
        shared: ClassifierModel = comm.bcast(model)
        return shared
    with mpi.agreed(comm, f"opening {path}"):
        model = model or Model(model_file(path))
    return model
