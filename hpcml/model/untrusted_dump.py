"""Checks of a classifier's dump (skops: a ZIP archive of arrays and a description) before reading.

skops looks at the types of some parts. Here every part must be of a kind that is known to be
harmless, take no more memory than the archive justifies, and the nodes of trees must lie in their
arrays, for scikit-learn's compiled code follows them without looking.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from hpcml.errors import DataError
from hpcml.model.estimator_checks import KEPT, class_path

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

MAX_SHARED = 20  # equal arrays are stored once; so many times the size of a dump may its arrays take when read
SMALL = 1 << 26  # bytes that any file may make us take
MAX_DEPTH = 100  # of parts in parts; those of ours have less than 40
TREE = "sklearn.tree._tree.Tree"
LOSSES = ("sklearn.linear_model._sgd_fast", "sklearn._loss._loss")  # modules of losses, which prediction does not use
SCALARS = frozenset({"bool", "bool_", "float32", "float64", "int32", "int64"})  # of numpy
# Objects beside estimators: what describes the loss of a gradient boosting, of which `estimator_checks` takes none over.
DESCRIBING = frozenset(
    {f"sklearn._loss.loss.{name}" for name in ("HalfBinomialLoss", "HalfMultinomialLoss", "ExponentialLoss")}
    | {f"sklearn._loss.link.{name}" for name in ("Interval", "LogitLink", "HalfLogitLink", "MultinomialLogit")}
)

# Our classes as files name them, and what they are called here: a file's bits do not depend on how this package is laid out.
CLASSES = {
    "hpcml.learners.Constant": "hpcml.model.learner.Constant",
    "hpcml.psbml.naive_bayes.KernelNaiveBayes": "hpcml.model.kernel_bayes.KernelNB",
    "hpcml.model.gaussian_bayes.GaussianNaiveBayes": "hpcml.model.gaussian_bayes.GaussianNB",
}


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


def check_dump(dump: ReadableBuffer, n_features: int) -> None:
    """Refuse an unsound dump, for rows of so many features; of arrays, headers are read.

    Raises DataError for a part of a kind that is not kept; for damage ValueError, or what zipfile,
    json and numpy raise.
    """
    content = memoryview(dump)
    with zipfile.ZipFile(_Bytes(content)) as archive:
        sizes = _sizes(archive, len(content))
        nodes = list(_checked_nodes(json.loads(archive.read("schema.json"))))
        files = [node["file"] for node in nodes if node["__loader__"] == "NdArrayNode" and "file" in node]
        total = sum(sizes[name] for name in files)
        if total > max(SMALL, MAX_SHARED * len(content)):
            raise ValueError(f"its arrays take {total} bytes, far more than the archive")
        for name in sizes.keys() - {"schema.json"}:
            if name not in files and sizes[name] > SMALL:
                raise ValueError(f"{name} has {sizes[name]} bytes, but is no part of it")
            with archive.open(name) as file:
                _check_array(file, sizes[name])
        for node in nodes:
            if node["__loader__"] == "TreeNode":
                _check_tree(archive, node, n_features)


def _sizes(archive: zipfile.ZipFile, limit: int) -> dict[str, int]:
    """The members' sizes. Raises ValueError if one is packed, there twice, or too large."""
    sizes: dict[str, int] = {}
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED or member.file_size > limit:
            raise ValueError(f"{member.filename} is larger than the archive")
        if member.filename in sizes:
            raise ValueError(f"{member.filename} is there twice")
        sizes[member.filename] = member.file_size
    if sizes.get("schema.json", 0) > SMALL:
        raise ValueError(f"its description takes {sizes['schema.json']} bytes")
    return sizes


def _check_array(file: IO[bytes], size: int) -> None:
    """Raise ValueError unless a member is an array that claims no more; reads its header."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):  # others are for headers of more than 64 KiB
        raise ValueError(f"an array of the version {version}")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError("an array of objects")
    claimed = dtype.itemsize
    for n in shape:
        claimed *= n
    if claimed > size or dtype.itemsize > max(size, 1 << 16):
        raise ValueError(f"an array claims {claimed} bytes, but there are {size}")


# The description -----------------------------------------------------------------------------------------------------


def _checked_nodes(root: Any) -> Iterator[dict[str, Any]]:
    """All parts of a dump's description, checked. Raises DataError, ValueError, KeyError."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if not isinstance(node, dict) or depth > MAX_DEPTH:
            raise ValueError("its description is damaged")
        loader, name = node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        if loader not in INNER or not _is_known(loader, name):
            raise DataError(f"it holds a {name} ({loader}), which is none of the kinds that are kept")
        if node.get("__id__"):  # would be put in the place of other parts
            raise ValueError("a part of it has an identity")
        yield node
        waiting.extend((part, depth + 1) for part in INNER[loader](node))


def _is_known(loader: str, name: str) -> bool:
    """Whether the class of that name is one that is kept and made by `loader`."""
    if loader == "ObjectNode":
        module, _, kind = name.rpartition(".")
        return CLASSES.get(name, class_path(module, kind)) in KEPT or name in DESCRIBING
    if loader == "LossNode":
        return name.rpartition(".")[0] in LOSSES
    if loader == "NdArrayNode":
        return name == "numpy.ndarray" or name in {f"numpy.{kind}" for kind in SCALARS}
    known = {
        "DictNode": ("builtins.dict",),
        "ListNode": ("builtins.list",),
        "TupleNode": ("builtins.tuple",),
        "TypeNode": ("builtins.str", "builtins.int", "numpy.int64"),  # of the keys of a dict
        "RandomStateNode": ("numpy.random.mtrand.RandomState",),
        "TreeNode": (TREE,),
        "JsonNode": tuple(f"builtins.{kind}" for kind in ("str", "int", "float", "bool", "NoneType")),
    }
    return name in known[loader]


def _of_loader(node: Any, *loaders: str) -> dict[str, Any]:
    """The part itself. Raises ValueError if it is made by another loader."""
    if not isinstance(node, dict) or node.get("__loader__") not in loaders:
        raise ValueError("its description is damaged")
    return node


def _in_dict(node: dict[str, Any]) -> list[Any]:
    keys = _of_loader(node["key_types"], "ListNode")
    for kind in keys["content"]:
        _of_loader(kind, "TypeNode")
    return [keys, *node["content"].values()]


def _in_list(node: dict[str, Any]) -> list[Any]:
    if not isinstance(node["content"], list):
        raise ValueError("its description is damaged")
    return node["content"]


def _in_array(node: dict[str, Any]) -> list[Any]:
    if node["type"] == "numpy":
        if not isinstance(node["file"], str):
            raise ValueError("its description is damaged")
        return []
    lists = [node]
    while lists:  # numpy would take arrays in the lists apart
        for part in _in_list(lists.pop()):
            if _of_loader(part, "ListNode", "ObjectNode", "JsonNode")["__loader__"] == "ListNode":
                lists.append(part)
    return [*node["content"], _of_loader(node["shape"], "TupleNode")]


def _in_loss(node: dict[str, Any]) -> list[Any]:
    arguments, state = _of_loader(node["__reduce__"]["args"], "TupleNode"), _of_loader(node["content"], "DictNode", "TupleNode")
    for argument in arguments["content"]:
        _of_loader(argument, "JsonNode")
    if state["content"]:
        raise ValueError("a loss has a state")
    return [arguments, state]


def _in_tree(node: dict[str, Any]) -> list[Any]:
    arguments, state = _of_loader(node["__reduce__"]["args"], "TupleNode"), _of_loader(node["content"], "DictNode")
    for part, loader in zip(_in_list(arguments), ("JsonNode", "NdArrayNode", "JsonNode"), strict=True):
        _of_loader(part, loader)
    parts = {"nodes": "NdArrayNode", "values": "NdArrayNode", "node_count": "JsonNode", "max_depth": "JsonNode"}
    for name, loader in parts.items():
        _of_loader(state["content"][name], loader)
    return [arguments, state]


# What skops makes parts with, and the parts in them.
INNER: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "DictNode": _in_dict,
    "JsonNode": lambda _: [],
    "ListNode": _in_list,
    "LossNode": _in_loss,
    "NdArrayNode": _in_array,
    "ObjectNode": lambda node: [_of_loader(node["content"], "DictNode", "JsonNode")],
    "RandomStateNode": lambda node: [_of_loader(node["content"], "DictNode")],
    "TreeNode": _in_tree,
    "TupleNode": _in_list,
    "TypeNode": lambda _: [],
}


# Trees ---------------------------------------------------------------------------------------------------------------


def _check_tree(archive: zipfile.ZipFile, tree: dict[str, Any], n_features: int) -> None:
    """Raise ValueError if a tree leads out of its arrays, in a circle, or out of a row."""
    from sklearn.tree._tree import NODE_DTYPE

    def value(node: dict[str, Any]) -> Any:
        if node["__loader__"] == "JsonNode":
            return json.loads(node["content"])
        return np.load(io.BytesIO(archive.read(node["file"])), allow_pickle=False)

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
