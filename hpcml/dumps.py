"""What must be certain of a classifier's dump (skops: a ZIP archive of arrays and a description) before and after it is read.

skops looks at the types. It does not look at sizes, and scikit-learn's compiled code follows arrays without looking.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

MAX_SHARED = 20  # equal arrays are stored once; so many times the size of a dump may its arrays take when read
SMALL = 1 << 26  # bytes that any file may make us take
TREE = "sklearn.tree._tree.Tree"


def check_archive(dump: bytes) -> None:
    """Raise ValueError (or what zipfile raises) if reading the dump would take more memory than its size justifies."""
    total = 0
    with zipfile.ZipFile(io.BytesIO(dump)) as archive:
        sizes = {}
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(dump):
                raise ValueError(f"{member.filename} is larger than the archive")
            if member.filename in sizes:
                raise ValueError(f"{member.filename} is there twice")
            sizes[member.filename] = member.file_size
        for part in _dicts(json.loads(archive.read("schema.json"))):
            if isinstance(part.get("file"), str):
                total += sizes[part["file"]]
            if f"{part.get('__module__')}.{part.get('__class__')}" == TREE and part.get("__loader__") != "TreeNode":
                raise ValueError("a tree is to be made in another way than trees are")
        if total > max(SMALL, MAX_SHARED * len(dump)):
            raise ValueError(f"its arrays take {total} bytes, far more than the archive")
        for name in sizes.keys() - {"schema.json"}:
            _check_member(archive.read(name))


def _check_member(content: bytes) -> None:
    """Raise ValueError if an array claims more than there is of it. Archives in the archive (sparse matrices) are none of ours."""
    if content.startswith(b"PK"):
        raise ValueError("there is an archive in the archive")
    if content.startswith(b"\x93NUMPY"):
        _check_header(io.BytesIO(content), len(content))


def _check_header(file: io.BytesIO, size: int) -> None:
    """Raise ValueError if a saved array of `size` bytes claims to be larger."""
    version = np.lib.format.read_magic(file)
    if version > (2, 0):
        raise ValueError(f"an array of the version {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError("an array of objects")
    claimed = dtype.itemsize
    for n in shape:
        claimed *= n
    if claimed > size or dtype.itemsize > max(size, 1 << 16):
        raise ValueError(f"an array claims {claimed} bytes, but there are {size}")


def _dicts(node: Any) -> Iterator[dict[str, Any]]:
    """A JSON value's objects, however deep."""
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _dicts(part)


def check_estimators(classifier: Any) -> None:
    """Raise ValueError if the arrays of a classifier, or of a part of it, do not fit one another."""
    for part in _parts(classifier):
        if hasattr(part, "check_arrays") and hasattr(part, "table_"):  # ours, and fitted
            part.check_arrays()
        if hasattr(part, "tree_") and part.tree_.n_features != part.n_features_in_:
            raise ValueError("a tree is of another width than its classifier")
        if hasattr(part, "estimators_") and hasattr(part, "n_features_in_"):
            for inner in _parts(part.estimators_):  # forests do not look at their trees' width
                if getattr(inner, "n_features_in_", 0) > part.n_features_in_:
                    raise ValueError("a classifier is wider than the one that it is part of")
        if hasattr(part, "_n_support") and hasattr(part, "support_vectors_"):
            _check_support(part)


def _check_support(svm: Any) -> None:
    """Raise ValueError unless the arrays of a LIBSVM machine fit one another: LIBSVM is told only some of their sizes."""
    counts, n_classes = svm._n_support, len(svm.classes_)
    n, pairs = int(counts.sum()), n_classes * (n_classes - 1) // 2
    sound = (
        (counts.shape == (n_classes,) and (counts >= 0).all() and n_classes >= 2)
        and svm.support_.shape == (n,)
        and svm.support_vectors_.shape == (n, svm.n_features_in_)
        and (svm._dual_coef_.shape == svm.dual_coef_.shape == (n_classes - 1, n))
        and (svm._intercept_.shape == svm.intercept_.shape == (pairs,))
        and (svm._probA.shape == svm._probB.shape and svm._probA.shape in ((0,), (pairs,)))
        and isinstance(svm.kernel, str)
        and svm.kernel != "precomputed"
        and not svm._sparse
    )
    if not sound:
        raise ValueError("the support vectors are damaged")


def _parts(part: Any, seen: dict[int, Any] | None = None) -> Iterator[Any]:
    """A classifier, and all estimators in it, however deep."""
    seen = {} if seen is None else seen
    if id(part) in seen:
        return
    seen[id(part)] = part
    if isinstance(part, dict):
        inside = part.values()
    elif isinstance(part, (list, tuple)) or (isinstance(part, np.ndarray) and part.dtype == object):
        inside = part
    elif hasattr(part, "get_params"):
        yield part
        inside = vars(part).values()
    else:
        return
    for other in inside:
        yield from _parts(other, seen)
