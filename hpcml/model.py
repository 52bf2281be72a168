"""The model file: one linear model per label, and what it was trained on.

A model is an HDF5 file stamped `hpcml-format = "model"`. `W` (n_labels × n_features float64, contiguous, one row per label) and
`bias` (n_labels float64) give the score `x · W[l] + bias[l]`, positive for "has the label". `label_names` names the rows;
`labels/*` (n_labels each) say how each label's training ended; attributes hold the method, its loss, λ and the vocabulary.
"""

from __future__ import annotations

from pathlib import Path

from hpcml.data.schema import Dataset, map_dataset, open_stamped
from hpcml.data.slabs import Slab
from hpcml.errors import DataError

STATUS = ("converged", "degenerate", "step limit")  # the codes of labels/status


def model_slabs(n_labels: int, n_features: int) -> dict[str, Slab]:
    """The datasets that the owners of the labels fill while training."""
    per_label = {"f_min": "<f8", "steps": "<i4", "status": "<i4", "n_positive": "<i8"}
    slabs = {f"labels/{name}": Slab((n_labels,), dtype) for name, dtype in per_label.items()}
    return {"W": Slab((n_labels, n_features), "<f8"), "bias": Slab((n_labels,), "<f8"), **slabs}


class Model:
    """A read-only handle on a model file; `W` is memory-mapped."""

    def __init__(self, path: Path | str) -> None:
        """Raises DataError if the file is not a model that this version reads."""
        self.path = Path(path)
        with open_stamped(path, "model", "hpcml train") as file:
            try:
                self.attrs = dict(file.attrs)
                self.vocabulary = str(file.attrs["vocabulary"])
                self.n_labels, self.n_features = file["W"].shape
                sizes = {name: file[name].shape for name in ("bias", "label_names", *(f"labels/{n}" for n in file["labels"]))}
                numbers = [
                    file["W"],
                    file["bias"],
                    *(file[f"labels/{name}"] for name in ("f_min", "steps", "status", "n_positive")),
                ]
                kinds = [data.dtype.str[1:] for data in numbers]
                if kinds != ["f8", "f8", "f8", "i4", "i4", "i8"] or any(size != (self.n_labels,) for size in sizes.values()):
                    raise ValueError("sizes or types do not fit")
                self.label_names: list[str] = list(file["label_names"].asstr()[:])
                self.bias = map_dataset(self.path, file["bias"])
                self.labels = {name: map_dataset(self.path, values) for name, values in file["labels"].items()}
                self.W = map_dataset(self.path, file["W"])
            except (KeyError, OSError, ValueError, TypeError, AttributeError):
                raise DataError(f"{path}: damaged model: a part is missing or of another size; train it again") from None

    def check_vocabulary(self, dataset: Dataset) -> None:
        """Raises DataError unless the dataset has the features that the model was trained on."""
        if dataset.vocabulary == self.vocabulary and dataset.n_features == self.n_features:
            return
        if dataset.n_features != self.n_features:
            what = f"has {dataset.n_features} features but {self.path} was trained on {self.n_features}"
        else:
            what = f"has other features (as many, but other names) than {self.path} was trained on"
        raise DataError(f"{dataset.path}: {what}; convert the data with `--like` the training file")
