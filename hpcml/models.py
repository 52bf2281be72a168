"""Every kind of model that `hpcml predict` and `hpcml evaluate` take."""

from __future__ import annotations

from pathlib import Path

import h5py

from hpcml.classifier import ClassifierModel
from hpcml.model import Model


def open_model(path: Path | str) -> Model | ClassifierModel:
    """The model in a file, of the kind that its stamp says. Raises DataError if it is not a sound model of any kind."""
    try:
        with h5py.File(path, "r", locking=False) as file:
            kind = file.attrs.get("hpcml-format")
    except (OSError, KeyError, ValueError, RuntimeError):  # h5py raises any of them for a damaged file
        kind = None  # Model says what is wrong
    return ClassifierModel(path) if kind == "classifier" else Model(path)
