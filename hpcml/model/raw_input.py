"""How raw input becomes the rows of a model, as its file keeps it in the group `input`.

These are the parts of the training dataset that describe its features: their names, and the settings of its text. No
row, text or id is among them. Names of features without a weight are kept, too: the unit length of a text depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from hpcml.data.dataset import DataFile
from hpcml.files.hdf5 import NAME_CHUNK, vocabulary_digest, write_strings
from hpcml.files.slabs import group_in
from hpcml.files.untrusted import attributes, read_strings

GROUP = "input"
VECTORISER = "vectoriser"  # the attribute with the settings of a vectoriser of scikit-learn, in JSON
NUL = b"\0"  # between names, none of which holds it
OF_FILE = ("source", "headings", "id_column", "text_columns")  # attributes of a dataset, beside those of its group `text`


@dataclass
class RawInput:
    """The features of a dataset or model: their names, and how text becomes features."""

    attributes: Mapping[str, Any] = field(default_factory=dict)  # OF_FILE, and of group `text`
    packed: np.ndarray | None = None  # (bytes) the names of all features in UTF-8, with NUL between; None: they have none
    idf: np.ndarray | None = None  # (n_features) of weighted text
    stop_words: list[str] = field(default_factory=list)
    n_bytes: int = 0  # that it takes in a model's file

    @classmethod
    def of_dataset(cls, dataset: DataFile) -> RawInput:
        """Read it from a dataset. Local; raises DataError, or as h5py."""
        found = {name: value for name, value in attributes(dataset.file).items() if name in OF_FILE}
        text, idf, packed = dataset.file.get("text"), None, None
        if text is not None:
            found |= attributes(text)
            idf = text["idf"][:] if "idf" in text else None
        if "feature_names" in dataset.file:
            chunks = (dataset.strings("feature_names", at, at + NAME_CHUNK) for at in range(0, dataset.n_features, NAME_CHUNK))
            names = NUL.join(NUL.join(map(str.encode, chunk or ())) for chunk in chunks)
            packed = np.frombuffer(names, np.uint8)
        return cls(found, packed, idf, dataset.strings("text/stop_words") or [])

    @property
    def is_text(self) -> bool:
        """Whether rows are made from texts."""
        return "weighting" in self.attributes

    @property
    def names(self) -> list[str] | None:
        """The names of all features; None: they have none."""
        return None if self.packed is None else self.packed.tobytes().decode().split(NUL.decode()) if self.packed.size else []

    def write(self, file: h5py.File) -> None:
        """Write it to a model's file."""
        group = group_in(file, GROUP)
        for name, value in sorted(self.attributes.items()):
            group.attrs[name] = value
        for name, values in (("feature_names", self.packed), ("idf", self.idf)):
            if values is not None:
                # 28,544 names of debian_depends: 326 kB, 118 kB compressed
                packing = {"compression": "gzip", "shuffle": True} if values.size else {}
                group.create_dataset(name, data=values, **packing)
        if self.stop_words:
            write_strings(file, f"{GROUP}/stop_words", self.stop_words)

    @classmethod
    def read(cls, file: h5py.File, n_features: int, vocabulary: str) -> RawInput | None:
        """Read it from the file of a model with these features; None: there is none. Raises ValueError, or as h5py."""
        if GROUP not in file:
            return None
        group = file[GROUP]
        packed, idf = (group[name][:] if name in group else None for name in ("feature_names", "idf"))
        stop_words = read_strings(group["stop_words"]) if "stop_words" in group else []
        n_bytes = sum(part.id.get_storage_size() for part in group.values())
        found = cls(attributes(group), packed, idf, stop_words, n_bytes)
        if packed is not None and (packed.dtype.str, packed.ndim) != ("|u1", 1):
            raise ValueError("wrong names of features")
        if idf is not None and (idf.dtype.kind, idf.shape) != ("f", (n_features,)):
            raise ValueError("idf does not fit")
        names = found.names
        if names is not None and (len(names) != n_features or vocabulary_digest(names, n_features) != vocabulary):
            raise ValueError("the names of the features are not those of training")
        return found
