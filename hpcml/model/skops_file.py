"""scikit-learn classifiers as skops saves them: canonical bytes, and checks before anything is read.

A dump is a ZIP archive of arrays and a description in JSON. skops runs no code of it, unlike pickle. Beyond
skops' own checks, every node of the description must have a loader and a class from the lists below, arrays
take no more memory than the archive justifies, and the nodes of trees lie in their arrays, because
scikit-learn's compiled code follows them unchecked. All other classes here predict with NumPy, which checks
shapes itself; support vectors (LIBSVM) and gradient boosting do not, so they are not in the list.

The bytes depend on the classifier alone: a dump is rewritten without dates and addresses (`canonical`).
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
import sys
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcml.errors import ConfigError, DataError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

MAX_SHARED = 20  # equal arrays are stored once; the arrays of a dump may take this many times its size when read
SMALL = 1 << 26  # bytes that any file may make us take
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest in a ZIP archive
# Beginnings of the dotted names of the classes that files may hold.
SAVABLE = (
    *("sklearn.linear_model.", "sklearn.naive_bayes.", "sklearn.tree.", "sklearn.discriminant_analysis.", "sklearn.dummy."),
    *("sklearn.ensemble._forest.", "sklearn.ensemble._bagging.", "sklearn.ensemble._weight_boosting."),
    *("sklearn.neighbors._nearest_centroid.", "sklearn.preprocessing._label.", "sklearn.svm._classes.LinearSVC"),
)
IN_WORDS = (
    "linear models, naive Bayes, trees, discriminant analysis, forests, bagging, AdaBoost, NearestCentroid, LinearSVC "
    "and DummyClassifier of scikit-learn"
)
_SCALARS = frozenset(f"numpy.{kind}" for kind in ("ndarray", "bool", "bool_", "float32", "float64", "int32", "int64"))
# Loaders of skops that are read, and the classes that each may make; of "ObjectNode" and "LossNode" see `_checked_nodes`.
LOADERS: dict[str, frozenset[str]] = {
    "DictNode": frozenset({"builtins.dict"}),
    "JsonNode": frozenset(f"builtins.{kind}" for kind in ("str", "int", "float", "bool", "NoneType")),
    "ListNode": frozenset({"builtins.list"}),
    "NdArrayNode": _SCALARS,
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "TreeNode": frozenset({"sklearn.tree._tree.Tree"}),
    "TupleNode": frozenset({"builtins.tuple"}),
    "TypeNode": frozenset({"builtins.str", "builtins.int", "numpy.int64"}),  # of the keys of a dict
}
LOSSES = ("sklearn.linear_model._sgd_fast", "sklearn._loss._loss", "_loss")  # modules; the last is the name in scikit-learn 1.6
_SILENT = {"n_jobs": None, "verbose": 0}  # ranks do the work, so a file sets no threads and no output


def _skops() -> Any:
    """Import skops.io without its list of all estimators, which takes 0.7 s. Raises ConfigError."""
    if "skops.io" not in sys.modules:
        import sklearn.utils

        gather, sklearn.utils.all_estimators = sklearn.utils.all_estimators, list
        try:
            importlib.import_module("skops.io")
        except ImportError:
            raise ConfigError("classifiers of scikit-learn are saved by skops; install it: pip install 'hpcml[sklearn]'") from None
        finally:
            sklearn.utils.all_estimators = gather
    return sys.modules["skops.io"]


def is_savable(kind: type) -> bool:
    """Return whether files may hold objects of this scikit-learn class."""
    return f"{kind.__module__}.{kind.__qualname__}".startswith(SAVABLE)


def dump(classifier: Any) -> bytes:
    """Return the classifier as skops saves it, in canonical form. Raises what skops raises."""
    return canonical(_skops().dumps(classifier))


def canonical(dump: bytes) -> bytes:
    """Return the dump without what differs by process: dates, padding, addresses, file names.

    Arrays are named by their order in the description; equal ones are stored once.
    """
    out, names = io.BytesIO(), dict[str, str]()
    with zipfile.ZipFile(io.BytesIO(dump)) as source, zipfile.ZipFile(out, "w") as target:

        def add(name: str, content: bytes) -> None:
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            target.writestr(entry, content)

        def add_once(name: str) -> str:
            content = _without_padding(source.read(name)) if name.endswith(".npy") else source.read(name)
            digest = hashlib.sha256(content).hexdigest()
            if digest not in names:
                names[digest] = f"{len(names)}{Path(name).suffix}"
                add(names[digest], content)
            return names[digest]

        def rewritten(node: Any) -> Any:  # the inner parts first
            if isinstance(node, list):
                return [rewritten(part) for part in node]
            if not isinstance(node, dict):
                return node
            parts = {key: rewritten(part) for key, part in node.items() if key != "__id__" or not isinstance(part, int)}
            return parts | {"file": add_once(parts["file"])} if isinstance(parts.get("file"), str) else parts

        add("schema.json", json.dumps(rewritten(json.loads(source.read("schema.json")))).encode())
    return out.getvalue()


def _without_padding(content: bytes) -> bytes:
    """Return a saved array with zeros between its records' fields, where any bytes may be."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean, out = np.zeros(array.shape, array.dtype), io.BytesIO()
    for name in array.dtype.names:
        clean[name] = array[name]
    np.save(out, clean, allow_pickle=False)
    return out.getvalue()


# Reading -------------------------------------------------------------------------------------------------------------


class _Bytes(io.RawIOBase):
    """A file of bytes that lie elsewhere, say in a mapped file: only what is read is copied."""

    def __init__(self, content: memoryview) -> None:
        self._content, self._at = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, len(self._content))[whence])
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        some = self._content[self._at : self._at + len(memoryview(buffer))]
        memoryview(buffer)[: len(some)] = some
        self._at += len(some)
        return len(some)


def load(dump: ReadableBuffer, n_features: int) -> Any:
    """Return the classifier of a dump, for rows of `n_features` features.

    Raises DataError for a class that is not in the lists; for damage what zipfile, json, numpy and skops raise.
    """
    check_dump(dump, n_features)
    content = bytes(dump)
    check_dump(content, n_features)  # a mapped file may have changed; the copy is what is read
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier = _skops().loads(content, trusted=_skops().get_untrusted_types(data=content))
    _check_parts(classifier)
    return classifier


def check_dump(dump: ReadableBuffer, n_features: int) -> None:
    """Raise DataError or ValueError unless a dump is sound. Of arrays, only headers and trees are read."""
    content = memoryview(dump)
    with zipfile.ZipFile(_Bytes(content)) as archive:
        sizes: dict[str, int] = {}
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                raise ValueError(f"{member.filename} is larger than the archive")
            if member.filename in sizes:
                raise ValueError(f"{member.filename} is there twice")
            sizes[member.filename] = member.file_size
        if sizes.get("schema.json", 0) > SMALL:
            raise ValueError(f"its description takes {sizes['schema.json']} bytes")
        nodes = list(_checked_nodes(json.loads(archive.read("schema.json"))))
        files = [node["file"] for node in nodes if node["__loader__"] == "NdArrayNode" and node["type"] == "numpy"]
        total = sum(sizes[name] for name in files)
        if total > max(SMALL, MAX_SHARED * len(content)):
            raise ValueError(f"its arrays take {total} bytes, far more than the archive")
        for name in sizes.keys() - {"schema.json"}:
            if name not in files and sizes[name] > SMALL:
                raise ValueError(f"{name} has {sizes[name]} bytes, but is no part of it")
            with archive.open(name) as file:
                version = np.lib.format.read_magic(file)
                if version != (1, 0):  # others are for headers of more than 64 KiB
                    raise ValueError(f"an array of the version {version}")
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if dtype.hasobject or min(shape, default=0) < 0:
                raise ValueError("an array of objects")
            claimed = dtype.itemsize * math.prod(shape)
            if claimed > sizes[name] or dtype.itemsize > max(sizes[name], 1 << 16):
                raise ValueError(f"an array claims {claimed} bytes, but there are {sizes[name]}")
        for node in nodes:
            if node["__loader__"] == "TreeNode":
                _check_tree(archive, node, n_features)


def _checked_nodes(root: Any) -> Iterator[dict[str, Any]]:
    """Yield all nodes of a description, however deep. Raises DataError, ValueError, KeyError."""
    if not isinstance(root, dict) or "__loader__" not in root:
        raise ValueError("its description is damaged")
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and "__loader__" in part:
            loader, name = part["__loader__"], f"{part['__module__']}.{part['__class__']}"
            if loader == "ObjectNode":
                known = name.startswith(SAVABLE)
            elif loader == "LossNode":  # of SGDClassifier and Perceptron; prediction does not use it
                known = name.rpartition(".")[0] in LOSSES
            else:
                known = name in LOADERS.get(loader, ())
            if not known:
                raise DataError(f"it holds a {name} ({loader}), which is not supported")
            if part.get("__id__"):  # skops would put it in the place of other nodes
                raise ValueError("a part of it has an identity")
            if loader == "NdArrayNode" and part["type"] == "numpy" and not isinstance(part["file"], str):
                raise ValueError("its description is damaged")
            if loader == "LossNode" and part["content"]["content"]:
                raise ValueError("a loss has a state")
            yield part
        if isinstance(part, (dict, list)):
            waiting.extend(part.values() if isinstance(part, dict) else part)


def _check_parts(root: Any) -> None:
    """Silence all estimators in an estimator. Raises ValueError for a tree that is wider than its estimator's rows."""
    waiting, seen = [root], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, (list, tuple)):
            waiting.extend(part)
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif is_savable(type(part)) and hasattr(part, "__dict__"):
            for name, value in _SILENT.items():
                if name in vars(part):
                    setattr(part, name, value)
            if "tree_" in vars(part) and part.tree_.n_features != part.n_features_in_:
                raise ValueError(f"a tree of a {type(part).__name__} is damaged: it has another number of features")
            waiting.extend(vars(part).values())


def _check_tree(archive: zipfile.ZipFile, tree: dict[str, Any], n_features: int) -> None:
    """Raise ValueError if a tree leads out of its arrays, in a circle, or out of a row."""
    from sklearn.tree._tree import NODE_DTYPE

    def value(node: dict[str, Any]) -> Any:
        if node["__loader__"] not in ("JsonNode", "NdArrayNode"):
            raise ValueError("the arrays of a tree do not fit one another")
        if node["__loader__"] == "JsonNode":
            return json.loads(node["content"])
        return np.load(io.BytesIO(archive.read(node["file"])), allow_pickle=False)

    if (tree["__reduce__"]["args"]["__loader__"], tree["content"]["__loader__"]) != ("TupleNode", "DictNode"):
        raise ValueError("its description is damaged")
    width, n_classes, n_outputs = (value(part) for part in tree["__reduce__"]["args"]["content"])
    state = tree["content"]["content"]
    nodes, values, count, depth = (value(state[name]) for name in ("nodes", "values", "node_count", "max_depth"))
    integers = (width, n_outputs, count, depth)
    sound = (
        all(type(number) is int and 0 <= number < 2**62 for number in integers)
        and (n_outputs, n_classes.shape) == (1, (1,))
        and n_classes.dtype.kind == "i"
        and (nodes.dtype, nodes.shape) == (NODE_DTYPE, (count,))
        and count >= 1
        and depth < count
        and (values.dtype, values.shape) == (np.float64, (count, 1, int(n_classes[0])))
    )
    if not sound:
        raise ValueError("the arrays of a tree do not fit one another")
    splits = np.flatnonzero(nodes["left_child"] != -1)
    features = nodes["feature"][splits]
    for children in (nodes["left_child"][splits], nodes["right_child"][splits]):
        if (children <= splits).any() or (children >= count).any():  # ascending, so that no way is a circle
            raise ValueError("a tree leads out of its arrays")
    if (features < 0).any() or (features >= min(width, n_features)).any():
        raise ValueError("a tree leads out of its rows")
