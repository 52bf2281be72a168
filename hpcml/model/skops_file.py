"""skops dumps of scikit-learn classifiers: canonical bytes, and checks before they are read.

A dump is a ZIP archive of arrays and a JSON schema. Unlike pickle, skops runs no code from it. In addition to the checks of skops,
each node of the schema must have a loader and a class from the lists below, arrays must not need more memory than the archive
justifies, and child indices of trees must be valid, because scikit-learn's compiled code does not check them. The other classes
predict with NumPy, which checks shapes. Support vector machines (LIBSVM) and gradient boosting do not, so they are not allowed.

`canonical` removes dates and addresses from a dump, so its bytes depend on the classifier only.
"""

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
from typing import Any

import numpy as np

from hpcml.errors import ConfigError, DataError

# Equal arrays are stored once, so the arrays of a dump may need this many times its size in memory.
MAX_SHARED = 20
# Memory in bytes that reading any file may need.
SMALL = 1 << 26
_DATE = (1980, 1, 1, 0, 0, 0)  # earliest date in a ZIP archive
# Prefixes of the dotted names of allowed classes.
SAVABLE = (
    *("sklearn.linear_model.", "sklearn.naive_bayes.", "sklearn.tree.", "sklearn.discriminant_analysis.", "sklearn.dummy."),
    *("sklearn.ensemble._forest.", "sklearn.ensemble._bagging.", "sklearn.ensemble._weight_boosting."),
    *("sklearn.neighbors._nearest_centroid.", "sklearn.preprocessing._label.", "sklearn.svm._classes.LinearSVC"),
)
SAVABLE_NAMES = (
    "linear models, naive Bayes, trees, discriminant analysis, forests, bagging, AdaBoost, NearestCentroid, LinearSVC "
    "and DummyClassifier of scikit-learn"
)
_ARRAY_TYPES = frozenset(f"numpy.{kind}" for kind in ("ndarray", "bool", "bool_", "float32", "float64", "int32", "int64"))
# Allowed loaders of skops and their classes; for "ObjectNode" and "LossNode" see `_checked_nodes`.
LOADERS: dict[str, frozenset[str]] = {
    "DictNode": frozenset({"builtins.dict"}),
    "JsonNode": frozenset(f"builtins.{kind}" for kind in ("str", "int", "float", "bool", "NoneType")),
    "ListNode": frozenset({"builtins.list"}),
    "NdArrayNode": _ARRAY_TYPES,
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "TreeNode": frozenset({"sklearn.tree._tree.Tree"}),
    "TupleNode": frozenset({"builtins.tuple"}),
    "TypeNode": frozenset({"builtins.str", "builtins.int", "numpy.int64"}),  # keys of a dict
}
LOSSES = ("sklearn.linear_model._sgd_fast", "sklearn._loss._loss", "_loss")  # modules; "_loss" is the name in scikit-learn 1.6
_SILENT = {"n_jobs": None, "verbose": 0}  # a file must not start threads or print


def _skops() -> Any:
    """Import skops.io without its list of all estimators, which takes 0.7 s. Raises ConfigError if skops is not installed."""
    if "skops.io" not in sys.modules:
        import sklearn.utils

        gather, sklearn.utils.all_estimators = sklearn.utils.all_estimators, list
        try:
            importlib.import_module("skops.io")
        except ImportError:
            raise ConfigError("scikit-learn classifiers need skops; install it: pip install 'hpcml[sklearn]'") from None
        finally:
            sklearn.utils.all_estimators = gather
    return sys.modules["skops.io"]


def is_savable(kind: type) -> bool:
    return f"{kind.__module__}.{kind.__qualname__}".startswith(SAVABLE)


def dump(classifier: Any) -> bytes:
    return canonical(_skops().dumps(classifier))


def canonical(dump: bytes) -> bytes:
    """Return the dump without dates, padding, addresses and random file names; equal arrays are stored once."""
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

        def rewrite(node: Any) -> Any:  # depth first, which numbers the arrays
            if isinstance(node, list):
                return [rewrite(part) for part in node]
            if not isinstance(node, dict):
                return node
            parts = {key: rewrite(part) for key, part in node.items() if key != "__id__" or not isinstance(part, int)}
            return parts | {"file": add_once(parts["file"])} if isinstance(parts.get("file"), str) else parts

        add("schema.json", json.dumps(rewrite(json.loads(source.read("schema.json")))).encode())
    return out.getvalue()


def _without_padding(content: bytes) -> bytes:
    """Return a saved array with zeros as padding between the fields of its records."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean, out = np.zeros(array.shape, array.dtype), io.BytesIO()
    for name in array.dtype.names:
        clean[name] = array[name]
    np.save(out, clean, allow_pickle=False)
    return out.getvalue()


class _LazyBytes(io.RawIOBase):
    """A file object over a memory map that copies only the bytes that are read."""

    def __init__(self, content: memoryview) -> None:
        self._content, self._position = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = max(0, offset + (0, self._position, len(self._content))[whence])
        return self._position

    def readinto(self, buffer: Any) -> int:
        block = self._content[self._position : self._position + len(memoryview(buffer))]
        memoryview(buffer)[: len(block)] = block
        self._position += len(block)
        return len(block)


def load(dump: bytes | memoryview, n_features: int) -> Any:
    """Read the classifier of a dump. Raises DataError if a class is not allowed, and errors of zipfile, json, NumPy and skops."""
    check_dump(dump, n_features)
    content = bytes(dump)
    check_dump(content, n_features)  # again, because a mapped file may have changed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier = _skops().loads(content, trusted=_skops().get_untrusted_types(data=content))
    _check_parts(classifier)
    return classifier


def check_dump(dump: bytes | memoryview, n_features: int) -> None:
    """Raise DataError or ValueError unless a dump is safe to read. Only trees and the headers of other arrays are read."""
    content = memoryview(dump)
    with zipfile.ZipFile(_LazyBytes(content)) as archive:
        sizes: dict[str, int] = {}
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                raise ValueError(f"{member.filename} is larger than the archive")
            if member.filename in sizes:
                raise ValueError(f"duplicate member {member.filename}")
            sizes[member.filename] = member.file_size
        if sizes.get("schema.json", 0) > SMALL:
            raise ValueError(f"the schema has {sizes['schema.json']} bytes")
        nodes = list(_checked_nodes(json.loads(archive.read("schema.json"))))
        files = [node["file"] for node in nodes if node["__loader__"] == "NdArrayNode" and node["type"] == "numpy"]
        total = sum(sizes[name] for name in files)
        if total > max(SMALL, MAX_SHARED * len(content)):
            raise ValueError(f"the arrays need {total} bytes, many times the size of the archive")
        for name in sizes.keys() - {"schema.json"}:
            if name not in files and sizes[name] > SMALL:
                raise ValueError(f"unused member {name} of {sizes[name]} bytes")
            with archive.open(name) as file:
                version = np.lib.format.read_magic(file)
                if version != (1, 0):  # other versions are for headers of more than 64 KiB
                    raise ValueError(f"array format {version}; expected (1, 0)")
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if dtype.hasobject or min(shape, default=0) < 0:
                raise ValueError("array of objects")
            claimed = dtype.itemsize * math.prod(shape)
            if claimed > sizes[name] or dtype.itemsize > max(sizes[name], 1 << 16):
                raise ValueError(f"array of {claimed} bytes in a member of {sizes[name]}")
        for node in nodes:
            if node["__loader__"] == "TreeNode":
                _check_tree(archive, node, n_features)


def _checked_nodes(root: Any) -> Iterator[dict[str, Any]]:
    """Yield all nodes of a schema. Raises DataError, ValueError, KeyError."""
    if not isinstance(root, dict) or "__loader__" not in root:
        raise ValueError("the schema is damaged")
    stack = [root]
    while stack:
        part = stack.pop()
        if isinstance(part, dict) and "__loader__" in part:
            loader, name = part["__loader__"], f"{part['__module__']}.{part['__class__']}"
            if loader == "ObjectNode":
                allowed = name.startswith(SAVABLE)
            elif loader == "LossNode":  # in SGDClassifier and Perceptron; not used for prediction
                allowed = name.rpartition(".")[0] in LOSSES
            else:
                allowed = name in LOADERS.get(loader, ())
            if not allowed:
                raise DataError(f"it contains a {name} ({loader}), which is not supported")
            if part.get("__id__"):  # skops would use this node in place of others with the same identity
                raise ValueError("a node has an identity")
            if loader == "NdArrayNode" and part["type"] == "numpy" and not isinstance(part["file"], str):
                raise ValueError("the schema is damaged")
            if loader == "LossNode" and part["content"]["content"]:
                raise ValueError("a loss has state")
            yield part
        if isinstance(part, (dict, list)):
            stack.extend(part.values() if isinstance(part, dict) else part)


def _check_parts(root: Any) -> None:
    """Disable threads and output of nested estimators. Raises ValueError for a tree with another number of features."""
    stack, seen = [root], set[int]()
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, (list, tuple)):
            stack.extend(part)
        elif isinstance(part, dict):
            stack.extend(part.values())
        elif is_savable(type(part)) and hasattr(part, "__dict__"):
            for name, value in _SILENT.items():
                if name in vars(part):
                    setattr(part, name, value)
            if "tree_" in vars(part) and part.tree_.n_features != part.n_features_in_:
                raise ValueError(f"a tree of {type(part).__name__} is damaged: it has another number of features")
            stack.extend(vars(part).values())


def _check_tree(archive: zipfile.ZipFile, tree: dict[str, Any], n_features: int) -> None:
    """Raise ValueError if a tree has inconsistent arrays, a cycle, or an invalid child or feature index."""
    from sklearn.tree._tree import NODE_DTYPE

    def value(node: dict[str, Any]) -> Any:
        if node["__loader__"] not in ("JsonNode", "NdArrayNode"):
            raise ValueError("inconsistent arrays of a tree")
        if node["__loader__"] == "JsonNode":
            return json.loads(node["content"])
        return np.load(io.BytesIO(archive.read(node["file"])), allow_pickle=False)

    if (tree["__reduce__"]["args"]["__loader__"], tree["content"]["__loader__"]) != ("TupleNode", "DictNode"):
        raise ValueError("the schema is damaged")
    width, n_classes, n_outputs = (value(part) for part in tree["__reduce__"]["args"]["content"])
    state = tree["content"]["content"]
    nodes, values, count, depth = (value(state[name]) for name in ("nodes", "values", "node_count", "max_depth"))
    integers = (width, n_outputs, count, depth)
    is_consistent = (
        all(type(number) is int and 0 <= number < 2**62 for number in integers)
        and (n_outputs, n_classes.shape) == (1, (1,))
        and n_classes.dtype.kind == "i"
        and (nodes.dtype, nodes.shape) == (NODE_DTYPE, (count,))
        and count >= 1
        and depth < count
        and (values.dtype, values.shape) == (np.float64, (count, 1, int(n_classes[0])))
    )
    if not is_consistent:
        raise ValueError("inconsistent arrays of a tree")
    splits = np.flatnonzero(nodes["left_child"] != -1)
    features = nodes["feature"][splits]
    for children in (nodes["left_child"][splits], nodes["right_child"][splits]):
        if (children <= splits).any() or (children >= count).any():  # ascending indices exclude cycles
            raise ValueError("invalid child index in a tree")
    if (features < 0).any() or (features >= min(width, n_features)).any():
        raise ValueError("invalid feature index in a tree")
