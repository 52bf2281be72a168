"""Variants of saved classifiers: every array in another shape, type or with other values, every number and text another one.

Each is opened and asked for the scores of rows in a forked process with limits of memory and time, many in one process; what ends
a process is found by trying its variants one by one.
"""

import copy
import io
import itertools
import json
import os
import random
import resource
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np

from hpcml.errors import DataError, HpcmlError
from hpcml.model.classifier import ClassifierModel
from hpcml.model.estimator_checks import KEPT
from hpcml.model.learner import scores
from support import make
from support.damage_hdf5 import HUGE
from support.edits import packed, unpacked

BATCH = 100  # variants in one process
SECONDS = 10  # of processor time for one; they take some milliseconds
WAIT = 300  # seconds for one on a machine that is busy
ADDRESS_SPACE = 1 << 30  # that a variant may take
OPTIONS = {  # so that the files are small
    "sklearn.ensemble.AdaBoostClassifier": "n_estimators=2",
    "sklearn.ensemble.BaggingClassifier": "n_estimators=2 max_features=3",
    "sklearn.ensemble.ExtraTreesClassifier": "n_estimators=2 max_depth=2",
    "sklearn.ensemble.GradientBoostingClassifier": "n_estimators=3 max_depth=2",
    "sklearn.ensemble.RandomForestClassifier": "n_estimators=2 max_depth=2",
    "sklearn.linear_model.LogisticRegressionCV": "Cs=2 cv=2",
    "sklearn.tree.DecisionTreeClassifier": "max_depth=3",
    "sklearn.tree.ExtraTreeClassifier": "max_depth=3",
}
DENSE = (
    "DecisionTree", "GaussianNB", "CategoricalNB", "LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis", "SVC", "NuSVC",
)  # rows needed  # fmt: skip
GIVEN_UP = ("allocate", "MemoryError", "bad_alloc")
CLASSES = sorted(path for path, kept in KEPT.items() if kept.classifies)


class Original:
    """A sound file of a class (a path of KEPT) for `n_classes` classes, and rows."""

    def __init__(self, path, n_classes, folder):
        X, y, _ = make.class_data(0, 40, 5, n_classes)
        X, y = abs(X), np.zeros_like(y) if path.endswith("Constant") else y
        dense = path.rpartition(".")[2] in DENSE or n_classes == 2
        base = f"{path} {OPTIONS.get(path, '')}" if not path.endswith(("Constant", "DecisionTree")) else "tree"
        names = ["class 1"] if n_classes == 2 else list("abc")
        self.model = ClassifierModel(make.classifier(Path(folder, "sound.h5"), base, X, y, names, dense=dense))
        self.rows = X[:9].toarray() if dense else X[:9]
        with h5py.File(self.model.path) as file:
            self.dump = file["classifier"][:].tobytes()
        self.members = unpacked(self.dump)
        self.places = list(places(json.loads(self.members["schema.json"])))

    def try_dump(self, dump):
        """What comes of it: "sound", "refused", or what is wrong."""
        model = copy.copy(self.model)
        try:
            model.classifier = model._load(dump)
        except DataError as error:
            sentence = str(error)
            told = len(sentence.splitlines()) == 1 and sentence.startswith(str(model.path))
            return (
                f"memory: {sentence}" if any(word in sentence for word in GIVEN_UP) else "refused" if told else f"said {sentence!r}"
            )
        try:
            found = scores(model.classifier, self.rows, model.n_classes)
        except HpcmlError:
            return "sound"  # its weights may be too large for finite scores
        return "sound" if found.shape == (9, model.n_labels) else f"scores of shape {found.shape}"

    def variant(self, number):
        """The dump with one part changed (two in some), and what was done."""
        rng, members = random.Random(f"{self.model.path.name} {number}"), dict(self.members)
        schema, done = json.loads(members["schema.json"]), []
        for place in [self.places[number % len(self.places)], *rng.sample(self.places, rng.random() < 0.1)]:
            with suppress(KeyError, IndexError, TypeError):  # the first change took the second place away
                done.append(change(rng, schema, place, members))
        members["schema.json"] = json.dumps(schema).encode()
        return packed(members), "; ".join(done)


def places(node, path=()):
    """Where arrays, numbers and texts, lists, and collections stand in a description: (path, loader)."""
    if isinstance(node, list):
        for number, part in enumerate(node):
            yield from places(part, (*path, number))
    elif isinstance(node, dict):
        loader = node.get("__loader__")
        if loader in ("JsonNode", "NdArrayNode", "ListNode", "TupleNode", "DictNode", "ObjectNode") and path[-1:] != ("key_types",):
            yield path, loader
        for key, part in node.items():
            yield from places(part, (*path, key))


def change(rng, schema, place, members):
    """Change one place in place: what was done."""
    path, loader = place
    node = schema
    for key in path[:-1]:
        node = node[key]
    holder, key = (node, path[-1]) if path else ({"root": schema}, "root")
    part, name = holder[key], ".".join(str(key) for key in path if key != "content")
    if loader == "JsonNode":
        value = json.loads(part["content"])
        others = [
            *HUGE, 3, 0.5, -1.5, 1e308, None, True, False, "", "x", "poly", "entropy", float("nan"), float("inf"), [1, 2],
            {"a": 1},
        ]  # fmt: skip
        near = [value + 1, value - 1, 2 * value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []
        other = rng.choice([*others, *near, *near])
        part["content"] = json.dumps(other)
        return f"{name}: {other!r} for {value!r}"
    if loader == "NdArrayNode" and part["type"] == "numpy":
        content, what = change_array(rng, members[part["file"]])
        part["file"] = f"new{len(members)}.npy"
        members[part["file"]] = content
        return f"{name}: {what}"
    if loader == "ObjectNode" or rng.random() < 0.3:
        arrays = [node for node in members if node.endswith(".npy")]
        new = rng.choice(
            [
                {
                    "__class__": "str",
                    "__module__": "builtins",
                    "__loader__": "JsonNode",
                    "content": rng.choice(("null", "0", '"zero"')),
                },
                {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy", "file": arrays[0]},
                {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [part, part]},
                *([schema] if path else []),
            ]
        )
        holder[key] = copy.deepcopy(new)
        return f"{name}: replaced by {new['__class__']}"
    return f"{name}: {change_items(rng, part)}"


def change_items(rng, part):
    """Lose, double, swap or regroup the parts of a list, a dict or an array of objects: what was done."""
    items = part["content"]
    if isinstance(items, dict):
        if not items:
            return "nothing"
        lost = rng.choice(list(items))
        number = list(items).index(lost)
        del items[lost], part["key_types"]["content"][number]
        return f"without {lost}"
    how = rng.choice(("lose", "double", "first", "empty", "swap", "flat", "one row"))
    if how == "lose" and items:
        del items[rng.randrange(len(items))]
    elif how == "double":
        part["content"] = items + copy.deepcopy(items)
    elif how == "first" and items:
        part["content"] = [copy.deepcopy(items[0]) for _ in items] * rng.choice((1, 2))
    elif how == "empty":
        part["content"] = []
    elif how == "swap" and items:
        items[0], items[-1] = items[-1], items[0]
    elif items and all(isinstance(item, dict) and item.get("__loader__") == "ListNode" for item in items):
        flat = list(itertools.chain.from_iterable(item["content"] for item in items))
        rows = [flat] if how == "one row" else [[item] for item in flat]
        part["content"] = [{**items[0], "content": row} for row in rows]  # what reshape would give
    return how


def change_array(rng, content):
    """Another shape, type, order of bytes, or other values: (the saved array, what was done)."""
    array, out = np.load(io.BytesIO(content)), io.BytesIO()
    how = rng.choice(("shape", "shape", "type", "values", "values", "values", "longer", "shorter", "axis", "turned"))
    if how == "shape":
        shapes = [(array.size,), (1, array.size), (array.size, 1), (1, 1, array.size), (array.size, 1, 1), array.shape[::-1]]
        array = array.reshape(rng.choice(shapes))
    elif how == "type":
        kinds = ("<f8", "<f4", "<f2", "<i8", "<i4", "<i1", "<u8", ">f8", ">i8", "?", "<c16", "<U3")
        array = array.astype(rng.choice(kinds)) if array.dtype.names is None else np.zeros(array.shape, rng.choice(kinds))
    elif how == "longer":
        array = np.concatenate([np.atleast_1d(array)] * rng.choice((2, 3)), axis=rng.randrange(max(1, array.ndim)))
    elif how == "shorter":
        array = np.atleast_1d(array)[: rng.randrange(np.atleast_1d(array).shape[0] + 1)]
    elif how == "axis":
        array = np.repeat(array[None], rng.choice((0, 1, 2, 5)), axis=0)
    elif how == "turned":
        array = np.asfortranarray(array.T)
    elif array.size:
        array = array.copy()
        names = array.dtype.names
        flat = (array if names is None else array[rng.choice(names)]).reshape(-1)
        some = slice(None) if rng.random() < 0.2 else rng.randrange(flat.size)
        kind = flat.dtype.kind
        near = (
            np.add(flat[some], rng.choice((1, -1)), dtype=np.int64 if kind in "iu" else flat.dtype) if kind in "iuf" else flat[some]
        )
        far = rng.choice(HUGE) if kind in "iu" else rng.choice((np.nan, np.inf, -np.inf, -1e300, 1e300, 5e-324, 0.0, -1.0, 7.0))
        with np.errstate(all="ignore"):
            flat[some] = near if rng.random() < 0.4 or kind not in "iuf" else np.asarray(far).astype(flat.dtype)
    np.save(out, array)
    return out.getvalue(), how


# Trials ------------------------------------------------------------------------------------------------------------------


def trials(original, numbers):
    """Try variants: {number: (what came, what was done)}; whatever is neither "sound" nor "refused" is a defect."""
    found = {}
    for first in range(0, len(numbers), BATCH):
        batch = numbers[first : first + BATCH]
        came = _in_child(original, batch)
        if len(came) < len(batch) or came[batch[-1]][0] is None:  # the process ended early: in which variant?
            came = {number: _in_child(original, [number]).get(number, ("process ended", "")) for number in batch}
        found |= came
    return found


def _in_child(original, numbers):
    """What came of variants in one process; of one that did not come to its end there is how the process ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _try_all(original, numbers, writing)
        finally:
            os._exit(0)
    os.close(writing)
    lines, rest = [], b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            if not select.select([pipe], [], [], WAIT)[0]:
                os.kill(child, signal.SIGKILL)
                lines.append(b'["hang", ""]')
                break
            some = pipe.read(1 << 16)
            if not some:
                break
            *whole, rest = (rest + some).split(b"\n")
            lines += whole
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    came = {number: tuple(json.loads(line)) for number, line in zip(numbers, lines, strict=False)}
    if code and len(came) < len(numbers):
        came[numbers[len(came)]] = (f"killed by {signal.Signals(-code).name}" if code < 0 else f"code {code}", "")
    return came


def _try_all(original, numbers, writing):
    """In the forked process: try the variants, tell what came."""
    for descriptor in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = 1024 * int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (size + ADDRESS_SPACE, size + ADDRESS_SPACE))
    for number in numbers:
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + SECONDS, resource.RLIM_INFINITY))
        dump, done = original.variant(number)
        try:
            came = original.try_dump(dump)
        except BaseException as error:  # noqa: BLE001 - what would be a traceback
            came = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps([came[:300], done[:300]]).encode() + b"\n")


def sweep(path, n_variants, folder):
    """Try so many variants of a class, half of them for three classes: counts, and the defects."""
    begin, counts, defects = time.monotonic(), {"sound": 0, "refused": 0}, []
    for n_classes in (2, 3):
        original = Original(path, n_classes, folder)
        if original.try_dump(original.dump) != "sound":
            raise ValueError(f"{path}: {original.try_dump(original.dump)}")
        for number, (came, done) in trials(original, list(range(n_variants // 2))).items():
            if came in counts:
                counts[came] += 1
            else:
                defects.append({"class": path, "n_classes": n_classes, "number": number, "defect": came, "damage": done})
    return {
        "class": path,
        "variants": sum(counts.values()) + len(defects),
        **counts,
        "seconds": round(time.monotonic() - begin, 1),
    }, defects
