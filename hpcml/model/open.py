"""Open and describe a model of any kind, from its file or the run folder around it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.errors import FEW, DataError
from hpcml.files.hdf5 import DAMAGE, MADE_BY, MADE_ON, open_checked, open_stamped
from hpcml.files.untrusted import check_parts
from hpcml.log import joined, plural, size
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import CHOSEN, Model
from hpcml.model.raw_input import RawInput
from hpcml.model.trained import Trained

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


def share_model(comm: mpi.Comm, path: Path | str | Trained) -> Any:
    """Collective over `comm`. Open the model in a file; one rank reads classifiers. An open model is returned. DataError."""
    if isinstance(path, Trained):
        return path
    with mpi.agreed(comm, f"opening {path}"):
        model = open_model(path) if comm.rank == 0 else None
    if comm.bcast(isinstance(model, ClassifierModel)):
        return comm.bcast(model)
    with mpi.agreed(comm, f"opening {path}"):
        return model or Model(model_file(path))


def require_raw_input(model: Trained) -> RawInput:
    """Return how raw input becomes rows of the model. Raises DataError if its file does not say."""
    if model.raw_input is None:
        why = "it was trained on svmlight text, or by an earlier version"
        raise DataError(
            f"{model.path}: the model does not know the names of its features ({why}); use a dataset with these features"
        )
    return model.raw_input


def format_model(model: Model | ClassifierModel) -> str:
    """Return a description of several lines. Local."""
    attrs = model.attrs
    lines = [
        f"{model.path}: a model of {attrs.get('method', '?')}, "
        f"{plural(model.n_labels, 'label')} × {plural(model.n_features, 'feature')}"
    ]
    if isinstance(model, Model):
        parts = (
            "" if model.combination is None else f", {model.combination.n_parts} weight vectors a label ({model.combination.kind})"
        )
        stored = "the weights that are left (CSR)" if model.sparse else "a weight for each label and column"
        lines.append(f"  weights     {model.n_weights:,} in {model.n_columns:,} columns: {stored}{parts}")
    else:
        lines.append(f"  classifier  {model.base.get('name', '?')}, of {model.margin_rows.size:,} rows")
    shown: dict[str, object] = {
        name: f"{attrs[name]:g}" if isinstance(attrs[name], (float, np.floating)) else attrs[name]
        for name in ("loss", "lambda", "positive_weight", "scale", "split", "n_rows")
        if name in attrs
    }
    for name in CHOSEN:
        if name in model.labels:
            low, high = np.quantile(model.labels[name], [0, 1])
            shown[name] = f"{low:.3g}" if low == high else f"of each label {low:.3g} to {high:.3g}"
    if shown:
        lines.append("  trained     " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items()))
    if MADE_BY in attrs:
        lines.append(f"  made by     hpcml {attrs[MADE_BY]}")
    with suppress(ValueError, TypeError, KeyError, RecursionError):  # the file may not say
        machine = json.loads(str(attrs.get(MADE_ON)))
        lines.append(f"  made on     {machine['processor']} ({machine['architecture']}, compiled for {machine['target']})")
    if (found := model.raw_input) is not None:
        what = ("texts: " if found.is_text else "numbers: ") + ("names of" if found.packed is not None else "no names of")
        lines.append(f"  input       {what} features, settings: {size(found.n_bytes)} of the file")
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
