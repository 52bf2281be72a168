"""What an HDF5 file holds, as one number: equal for files of the same content, however made.

It is the SHA-256 of names, types, shapes and values of all datasets and attributes in sorted order,
not of the file's bytes. Left out are attributes that do not say what was computed: `hpcml-version`
(the number of the format) and `made-on` (the processor and the libraries); and, in a saved
classifier and in the attribute `base`, the version of skops and the modules where hpcml keeps its
classes (`hpcml.psbml.naive_bayes.KernelNB` counts as `hpcml.KernelNB`). No other attribute holds a
time, a version or a path.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from pathlib import Path

import h5py
import numpy as np

from hpcml.files.hdf5 import MADE_ON

NOT_CONTENT = frozenset({"hpcml-version", MADE_ON})


def digest(path: Path | str) -> str:
    """The SHA-256 of what an HDF5 file holds. Raises what h5py raises."""
    found: dict[str, bytes] = {}

    def look(name: str, node: h5py.Group | h5py.Dataset) -> None:
        found[name] = _content(name, node[()]) if isinstance(node, h5py.Dataset) else b"group"
        found.update({f"{name}@{key}": _content(f"{name}@{key}", node.attrs[key]) for key in node.attrs if key not in NOT_CONTENT})

    with h5py.File(path) as file:
        look("/", file)
        file.visititems(lambda name, node: look(f"/{name}", node))
    return digest_of({name: hashlib.sha256(part).hexdigest() for name, part in found.items()})


def digest_of(parts: dict[str, str]) -> str:
    """The SHA-256 of several digests and their names."""
    return hashlib.sha256("".join(f"{name} {part}\n" for name, part in sorted(parts.items())).encode()).hexdigest()


def _without_modules(text: str) -> str:
    """A text in which hpcml's classes have no modules."""
    return re.sub(r"\bhpcml(\.[a-z_0-9]+)+\b", "hpcml", text)


def _classifier_parts(dump: bytes) -> bytes:
    """What a classifier saved by skops is made of: a ZIP archive of arrays and a description."""
    with zipfile.ZipFile(io.BytesIO(dump)) as archive:
        parts = {name: archive.read(name) for name in sorted(archive.namelist())}
    description = json.loads(_without_modules(parts["schema.json"].decode()))
    description.pop("_skops_version", None)
    parts["schema.json"] = json.dumps(description, sort_keys=True).encode()
    return b"".join(f"{name} {len(part)}\n".encode() + part for name, part in parts.items())


def _content(name: str, value: object) -> bytes:
    """Type, shape and values of a dataset or attribute."""
    array = np.asarray(value)
    if name == "/classifier":
        return _classifier_parts(array.tobytes())
    if array.dtype == object or array.dtype.kind in "SU":  # texts
        texts = [each.decode() if isinstance(each, bytes) else str(each) for each in array.reshape(-1).tolist()]
        return json.dumps([array.shape, [_without_modules(text) for text in texts] if name == "/@base" else texts]).encode()
    return f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()
