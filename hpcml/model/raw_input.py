"""Description of a model's features, stored in the group `input` of its file: names, and settings that turn text into features.

It contains no rows, texts or ids of the training data. Features without weights are included, because the length to which a text is
normalised depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from hpcml.data.dataset import DataFile
from hpcml.files.hdf5 import NAME_CHUNK, vocabulary_digest, write_strings
from hpcml.files.slabs import require_group
from hpcml.files.untrusted import attributes, read_strings

GROUP = "input"
VECTORISER = "vectoriser"  # attribute: settings of a scikit-learn vectoriser, as JSON
NUL = b"\0"  # separates names
# Attributes of a dataset that are copied, in addition to those of its group `text`.
DATASET_ATTRIBUTES = ("source", "headings", "id_column", "text_columns")


@dataclass
class RawInput:
    """Names of features, and the settings that turn text into features."""

    attributes: Mapping[str, Any] = field(default_factory=dict)  # DATASET_ATTRIBUTES, and those of group `text`
    packed: np.ndarray | None = None  # names of all features in UTF-8, separated by NUL (uint8); None: no names
    idf: np.ndarray | None = None  # (n_features,)
    stop_words: list[str] = field(default_factory=list)
    n_bytes: int = 0  # size in the model file

    @classmethod
    def of_dataset(cls, dataset: DataFile) -> RawInput:
        attrs = {name: value for name, value in attributes(dataset.file).items() if name in DATASET_ATTRIBUTES}
        text, idf, packed = dataset.file.get("text"), None, None
        if text is not None:
            attrs |= attributes(text)
            idf = text["idf"][:] if "idf" in text else None
        if "feature_names" in dataset.file:
            chunks = (dataset.strings("feature_names", k, k + NAME_CHUNK) for k in range(0, dataset.n_features, NAME_CHUNK))
            names = NUL.join(NUL.join(map(str.encode, chunk or ())) for chunk in chunks)
            packed = np.frombuffer(names, np.uint8)
        return cls(attrs, packed, idf, dataset.strings("text/stop_words") or [])

    @property
    def is_text(self) -> bool:
        return "weighting" in self.attributes

    @property
    def names(self) -> list[str] | None:
        """Names of all features; None: they have no names."""
        return None if self.packed is None else self.packed.tobytes().decode().split(NUL.decode()) if self.packed.size else []

    def write(self, file: h5py.File) -> None:
        group = require_group(file, GROUP)
        for name, value in sorted(self.attributes.items()):
            group.attrs[name] = value
        for name, values in (("feature_names", self.packed), ("idf", self.idf)):
            if values is not None:
                # gzip: 28,544 names of debian_depends take 118 kB instead of 326 kB
                packing = {"compression": "gzip", "shuffle": True} if values.size else {}
                group.create_dataset(name, data=values, **packing)
        if self.stop_words:
            write_strings(file, f"{GROUP}/stop_words", self.stop_words)

    @classmethod
    def read(cls, file: h5py.File, n_features: int, vocabulary: str) -> RawInput | None:
        """Read the description from a model file; None: the file has none. Raises ValueError and errors of h5py."""
        if GROUP not in file:
            return None
        group = file[GROUP]
        packed, idf = (group[name][:] if name in group else None for name in ("feature_names", "idf"))
        stop_words = read_strings(group["stop_words"]) if "stop_words" in group else []
        n_bytes = sum(part.id.get_storage_size() for part in group.values())
        raw_input = cls(attributes(group), packed, idf, stop_words, n_bytes)
        if packed is not None and (packed.dtype.str, packed.ndim) != ("|u1", 1):
            raise ValueError("invalid feature names")
        if idf is not None and (idf.dtype.kind, idf.shape) != ("f", (n_features,)):
            raise ValueError("idf has the wrong size or type")
        names = raw_input.names
        if names is not None and (len(names) != n_features or vocabulary_digest(names, n_features) != vocabulary):
            raise ValueError("the feature names differ from those of the training data")
        return raw_input
