"""Our own classifiers as skops saves and reads them, without its and scikit-learn's slow import.

They are objects of arrays and plain values. Files are the same whoever writes them, and either
reads both; the version of skops, which neither needs to read them, is left out.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

from hpcml.model.estimator_checks import class_path
from hpcml.model.learner import PLAIN, plain_class
from hpcml.model.untrusted_dump import CLASSES

_PROTOCOL = 2  # of skops
_VALUES = (bool, int, float, str, type(None))


def is_own(classifier: Any) -> bool:
    """Whether `dump` writes classifiers of this class."""
    return vars(type(classifier)).get("filed_as") in PLAIN


def dump(classifier: Any) -> bytes:
    """A classifier that `is_own` as skops saves it, not yet in canonical form."""
    out, attributes = io.BytesIO(), vars(classifier)
    with zipfile.ZipFile(out, "w") as archive:
        parts = {}
        for name, value in attributes.items():
            if isinstance(value, np.ndarray):
                array = io.BytesIO()
                np.save(array, value, allow_pickle=False)
                archive.writestr(f"{name}.npy", array.getvalue())
                parts[name] = _node("ndarray", "numpy", "NdArrayNode", type="numpy", file=f"{name}.npy")
            elif type(value) in _VALUES:
                parts[name] = _node("str", "builtins", "JsonNode", content=json.dumps(value), is_json=True)
            else:
                raise TypeError(f"{name} is a {type(value).__name__}")
        keys = _node("list", "builtins", "ListNode", content=[_node("str", "builtins", "TypeNode") for _ in parts])
        state = _node("dict", "builtins", "DictNode", content=parts, key_types=keys)
        module, _, kind = type(classifier).filed_as.rpartition(".")
        root = _node(kind, module, "ObjectNode", content=state, protocol=_PROTOCOL)
        archive.writestr("schema.json", json.dumps(root))
    return out.getvalue()


def own_path(root: dict[str, Any]) -> str | None:
    """Where here the class of a dump's description is, if it is of those that `dump` writes."""
    path = CLASSES.get(f"{root['__module__']}.{root['__class__']}", class_path(root["__module__"], root["__class__"]))
    return path if path in PLAIN else None


def _node(kind: str, module: str, loader: str, **more: Any) -> dict[str, Any]:
    return {"__class__": kind, "__module__": module, "__loader__": loader, **more}


def load(dump: bytes) -> Any:
    """The classifier of a sound dump if it is ours, else None. Raises as zipfile, json, numpy."""
    with zipfile.ZipFile(io.BytesIO(dump)) as archive:
        root = json.loads(archive.read("schema.json"))
        path = own_path(root)
        if root["__loader__"] != "ObjectNode" or path is None or root["content"]["__loader__"] != "DictNode":
            return None
        kind = plain_class(path)
        classifier: Any = object.__new__(kind)
        for name, part in root["content"]["content"].items():
            if part["__loader__"] == "JsonNode":
                value = json.loads(part["content"])
            elif part["__loader__"] == "NdArrayNode" and part["type"] == "numpy" and part["__class__"] == "ndarray":
                value = np.load(io.BytesIO(archive.read(part["file"])), allow_pickle=False)
            else:
                return None
            vars(classifier)[name] = value
    return classifier
