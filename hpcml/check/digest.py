"""What an HDF5 file holds, as one number: equal for files of the same content, however made.

It is the SHA-256 of names, types, shapes and values of all datasets and attributes in sorted order,
not of the file's bytes. Left out are attributes that do not say what was computed: `hpcml-version`
(the number of the format) and `made-on` (the processor and the libraries); and the version of skops in a
classifier that it saved. No other attribute holds a time, a version or a path.
"""

from __future__ import annotations

import hashlib
import io
import json
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


def _dump_parts(dump: bytes) -> bytes:
    """Return the content of a classifier that skops saved, without the version of skops."""
    with zipfile.ZipFile(io.BytesIO(dump)) as archive:
        parts = {name: archive.read(name) for name in sorted(archive.namelist())}
    description = json.loads(parts["schema.json"])
    description.pop("_skops_version", None)
    parts["schema.json"] = json.dumps(description, sort_keys=True).encode()
    return b"".join(f"{name} {len(part)}\n".encode() + part for name, part in parts.items())


def _content(name: str, value: object) -> bytes:
    """Type, shape and values of a dataset or attribute."""
    array = np.asarray(value)
    if name == "/classifier":
        return _dump_parts(array.tobytes())
    if array.dtype == object or array.dtype.kind in "SU":  # texts
        texts = [each.decode() if isinstance(each, bytes) else str(each) for each in array.reshape(-1).tolist()]
        return json.dumps([array.shape, texts]).encode()
    return f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()
