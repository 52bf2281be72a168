"""Open and describe models of any kind, given as a file or a run folder."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.errors import FEW, DataError
from hpcml.files.hdf5 import COMPUTED_BY, DAMAGE, WRITTEN_BY, open_checked, open_stamped
from hpcml.files.untrusted import check_parts
from hpcml.log import joined, plural, size
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import TUNED_OPTIONS, Model
from hpcml.model.raw_input import RawInput
from hpcml.model.trained import Trained

FILE, CONFIG = "model.h5", "config.toml"  # in a run folder


def model_file(path: Path | str) -> Path:
    """Return the model file of a file or a run folder. Raises DataError for a folder without a model."""
    path = Path(path)
    if not path.is_dir() or (path / FILE).exists():
        return path / FILE if path.is_dir() else path
    if (path / CONFIG).exists():
        raise DataError(f"{path}: the run is not finished and has no model yet; continue it with --resume")
    runs = sorted(file.parent.name for file in path.glob(f"*/{FILE}"))
    if runs:
        raise DataError(
            f"{path}: is a folder of runs; expected one of them: {', '.join(runs[:FEW])}{', …' if len(runs) > FEW else ''}"
        )
    raise DataError(f"{path}: the folder has no model ({FILE}); expected a model file or a run folder of `hpcml train`")


def open_model(path: Path | str) -> Model | ClassifierModel:
    """Open a model.

    Parameters
    ----------
    path : path
        A run folder, or its model.h5.

    Returns
    -------
    Model or ClassifierModel
        Depends on the method: psbml trains one classifier, other methods linear models.

    Raises
    ------
    DataError
        If there is no model, or its file cannot be read or is damaged.

    Examples
    --------
    >>> hpcml.open_model("run").label_names
    ['farm', 'sea']
    """
    path = model_file(path)
    with open_stamped(path, ("model", "classifier"), "hpcml train") as file:
        return ClassifierModel(path, file) if file.attrs["hpcml-format"] == ClassifierModel.kind else Model(path, file)


def kind_of(path: Path | str) -> str:
    """Return the kind of an hpcml file; "" for any other file."""
    path = model_file(path)
    try:
        with open_checked(path, "") as file:
            check_parts(file)
            kind = file.attrs.get("hpcml-format")
    except (DataError, *DAMAGE):
        return ""
    return kind if isinstance(kind, str) else ""


def share_model(comm: mpi.Comm, path: Path | str | Trained) -> Any:
    """Open a model on all ranks; rank 0 reads classifiers and sends them. Collective over `comm`. Raises DataError."""
    if isinstance(path, Trained):
        return path
    with mpi.agreed(comm, f"opening {path}"):
        model = open_model(path) if comm.rank == 0 else None
    if comm.bcast(isinstance(model, ClassifierModel)):
        return comm.bcast(model)
    with mpi.agreed(comm, f"opening {path}"):
        return model or Model(model_file(path))


def require_raw_input(model: Trained) -> RawInput:
    if model.raw_input is None:
        raise DataError(
            f"{model.path}: the model has no feature names (trained on svmlight text, or by an earlier version); "
            "use a dataset with the same features, or train from a dataset"
        )
    return model.raw_input


def format_model(model: Model | ClassifierModel) -> str:
    attrs = model.attrs
    lines = [
        f"{model.path}: a model trained by {attrs.get('method', '?')}, "
        f"{plural(model.n_labels, 'label')} × {plural(model.n_features, 'feature')}"
    ]
    if isinstance(model, Model):
        combination = model.combination
        parts = "" if combination is None else f", {combination.n_parts} weight vectors per label ({combination.kind})"
        stored = "sparse (CSR)" if model.sparse else "dense"
        lines.append(f"  weights     {model.n_weights:,} in {model.n_columns:,} columns: {stored}{parts}")
    else:
        lines.append(f"  classifier  {model.base.get('name', '?')}, fitted on {model.margin_rows.size:,} rows")
    settings: dict[str, object] = {
        name: f"{attrs[name]:g}" if isinstance(attrs[name], (float, np.floating)) else attrs[name]
        for name in ("loss", "lambda", "positive_weight", "scale", "split", "n_rows")
        if name in attrs
    }
    for name in TUNED_OPTIONS:
        if name in model.labels:
            low, high = np.quantile(model.labels[name], [0, 1])
            settings[name] = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g} per label"
    if settings:
        lines.append("  trained     " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items()))
    if WRITTEN_BY in attrs:
        lines.append(f"  made by     hpcml {attrs[WRITTEN_BY]}")
    with suppress(ValueError, TypeError, KeyError, RecursionError):  # files of earlier versions have no COMPUTED_BY
        machine = json.loads(str(attrs.get(COMPUTED_BY)))
        lines.append(f"  made on     {machine['processor']} ({machine['architecture']}, compiled for {machine['target']})")
    if (raw_input := model.raw_input) is not None:
        names = "feature names" if raw_input.packed is not None else "no feature names"
        lines.append(f"  input       {'texts' if raw_input.is_text else 'numbers'}, {names}: {size(raw_input.n_bytes)} of the file")
    if model.probability_source:
        lines.append(f"  probability {model.probability_source}")
    if not model.threshold_source:
        return joined([*lines, "  thresholds  0 for all labels"])
    values, counts = np.unique(model.thresholds, return_counts=True)
    spread = f"{values[0]:.6g} for all labels" if values.size == 1 else f"{values[0]:.6g} to {values[-1]:.6g}"
    lines.append(f"  thresholds  {spread}: {model.threshold_source}")
    if 1 < values.size < model.n_labels:
        lines.append(f"              {counts.max():,} labels share {values[counts.argmax()]:.6g}")
    return joined(lines)
