"""Untrusted files: they run no code, open no other file, and use no more memory than their size allows."""

import ast
import contextlib
import io
import json
import mmap
import pickle
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from support import make
from support.edits import archived, attributes, edit, replace

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.info import info
from hpcml.errors import DataError
from hpcml.files.untrusted import check_parts, read_strings
from hpcml.model import skops_file
from hpcml.model.classifier import ClassifierModel
from hpcml.model.open import open_model

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "code", "runpy"}
CALLS = {"eval", "exec", "compile", "__import__", "execfile", "system", "popen", "memmap_pickle"}


def find_risky(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            yield from [node.module] if (node.module or "").partition(".")[0] in MODULES else []
            yield from (name.name for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            of = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            if name in CALLS and of not in ("re", "self", "kernels"):
                yield ast.unparse(node.func)
            if (
                name == "load"
                and of in ("np", "numpy")
                and {k.arg: ast.unparse(k.value) for k in node.keywords} != {"allow_pickle": "False"}
            ):
                yield ast.unparse(node)
            yield from (ast.unparse(node) for k in node.keywords if k.arg == "allow_pickle" and ast.unparse(k.value) != "False")


def test_no_module_reads_pickles_or_runs_text():
    folder = Path(hpcml.__file__).parent
    risky = {path.name: list(find_risky(ast.parse(path.read_text(encoding="utf-8")))) for path in folder.rglob("*.py")}
    assert len(risky) > 50 and not any(risky.values()), risky


class Payload:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.fixture
def classifier(tmp_path):
    X, y, _ = make.class_data(0, 60, 5, 3)
    return make.classifier(tmp_path / "model.h5", "linear-svm", X, y, "abc")


def repack(path, change, compression=zipfile.ZIP_STORED):
    edit(path, archived(change, compression))


def first_array(members):
    return next(name for name in sorted(members) if name.endswith(".npy"))


def peak(action):
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as raised:
            action()
        assert len(str(raised.value).splitlines()) == 1
        return tracemalloc.get_traced_memory()[1], str(raised.value)
    finally:
        tracemalloc.stop()


def test_never_reads_a_pickle_in_a_model(tmp_path, classifier):
    marker = tmp_path / "marker"
    payload = pickle.dumps(Payload(marker))
    pickle.loads(payload)  # the payload works
    marker.unlink()

    def as_array(members):
        out = io.BytesIO()
        np.save(out, np.array([Payload(marker)], dtype=object), allow_pickle=True)
        members[first_array(members)] = out.getvalue()

    original = classifier.read_bytes()
    for change in (as_array, lambda members: members.update({first_array(members): payload})):
        repack(classifier, change)
        with pytest.raises(DataError, match="damaged classifier"):
            open_model(classifier)
        classifier.write_bytes(original)
    edit(classifier, replace("classifier", lambda _: np.frombuffer(payload, dtype=np.uint8)))
    with pytest.raises(DataError, match="damaged classifier"):
        open_model(classifier)
    assert not marker.exists()


CALLED = ("os.system", "builtins.eval", "functools.partial", "pickle.loads")


def node(name, loader, **content):
    module, _, class_name = name.rpartition(".")
    return {"__class__": class_name, "__module__": module, "__loader__": loader, **content}


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("loader", ["FunctionNode", "TypeNode", "ObjectNode", "ConstructorFromReduceNode", "PartialNode"])
def test_rejects_a_schema_that_names_a_function(tmp_path, classifier, name, loader):
    marker = tmp_path / "marker"
    text = node("builtins.str", "JsonNode", content=json.dumps(f"touch {marker}"), is_json=True)
    arguments = node("builtins.tuple", "TupleNode", content=[text])

    def change(members):
        schema = json.loads(members["schema.json"])
        content = {"func": text, "args": arguments} if loader == "PartialNode" else arguments
        schema["content"]["content"]["intercept_"] = node(name, loader, content=content)
        members["schema.json"] = json.dumps(schema).encode()

    repack(classifier, change)
    with pytest.raises(DataError) as raised:
        open_model(classifier)
    assert len(str(raised.value).splitlines()) == 1
    assert not marker.exists()


def claim(shape):
    def change(members):
        out = io.BytesIO()
        np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
        members[first_array(members)] = out.getvalue()

    return change


def shared(members):
    schema, name = json.loads(members["schema.json"]), first_array(members)
    out = io.BytesIO()
    np.save(out, np.zeros(10_000))
    members[name] = out.getvalue()
    array = node("numpy.ndarray", "NdArrayNode", type="numpy", file=name)
    schema["content"]["content"]["more"] = node("builtins.list", "ListNode", content=[array] * 20_000)
    members["schema.json"] = json.dumps(schema, separators=(",", ":")).encode()


@pytest.mark.parametrize("value", ["reference", "empty", "record", "texts", "no UTF-8"])
def test_rejects_attributes_that_are_no_texts_and_numbers(tmp_path, classifier, value):
    for path in (classifier, make.model(tmp_path / "linear.h5", np.eye(2))):
        with h5py.File(path, "r+") as file:
            values = {"reference": file.ref, "empty": h5py.Empty("<f4"), "record": np.zeros(1, dtype="i4,f4"), "texts": ["a", "b"]}
            file.attrs["method"] = (values | {"no UTF-8": np.bytes_(b"\xff")})[value]
        with pytest.raises(DataError):
            open_model(path)


def test_archive_uses_no_more_memory_than_its_size_allows(classifier):
    original, large = classifier.read_bytes(), bytes(1 << 27)
    for change, compression in (
        (claim((1 << 27,)), zipfile.ZIP_STORED),
        (claim((1 << 60, 1 << 60)), zipfile.ZIP_STORED),
        (lambda members: members.update({first_array(members): large}), zipfile.ZIP_DEFLATED),
        (lambda members: members.update({first_array(members): large}), zipfile.ZIP_STORED),
        (lambda members: members.update({"more.npy": large}), zipfile.ZIP_STORED),
        (lambda members: members.update({"schema.json": large}), zipfile.ZIP_STORED),
    ):
        repack(classifier, change, compression)
        n_bytes, message = peak(lambda: open_model(classifier))
        assert n_bytes < 1 << 25, message
        classifier.write_bytes(original)
    repack(classifier, shared)
    assert "many times the size of the archive" in peak(lambda: open_model(classifier))[1]


def test_claimed_width_of_a_classifier_uses_no_memory(classifier):
    edit(classifier, attributes({"n_features": 1 << 40, "dense": True}))
    n_bytes, message = peak(lambda: ClassifierModel(classifier))
    assert n_bytes < 1 << 25 and str(1 << 40) in message


def test_rejects_trees_with_other_widths_than_they_claim():
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    X, y, _ = make.class_data(0, 60, 5, 3)
    tree = DecisionTreeClassifier().fit(X, y)
    skops_file.load(skops_file.dump(tree), 5)
    tree.n_features_in_ = 2
    forest = RandomForestClassifier(2).fit(X[:, :2], y)
    forest.estimators_[1] = tree
    bagging = BaggingClassifier(DecisionTreeClassifier(), n_estimators=2, max_features=2).fit(X, y)
    skops_file.load(skops_file.dump(bagging), 5)
    bagging.estimators_[1] = tree
    for damaged in (tree, forest, bagging):
        with pytest.raises(ValueError, match="is damaged"):
            skops_file.load(skops_file.dump(damaged), 5)
    with pytest.raises(ValueError, match="invalid feature index"):
        skops_file.load(skops_file.dump(DecisionTreeClassifier().fit(X, y)), 1)


@pytest.fixture
def data(tmp_path):
    X, Y = make.random_data(0, 20, 6, 3)
    splits = {"test": [1, 2]}
    return make.dataset(tmp_path / "data.h5", X, Y, make.names("f", 6), make.names("l", 3), make.names("r", 20), splits)


def replaced(name, make_part):
    def damage(file, secret):
        del file[name]
        make_part(file, secret)

    return damage


def created(name, *arguments, **options):
    return replaced(name, lambda file, secret: file.create_dataset(name, *arguments, **options))


def virtual(file, secret):
    layout = h5py.VirtualLayout((100,), "<f4")
    layout[...] = h5py.VirtualSource(secret, "secret", (100,))
    file.create_virtual_dataset("X/data", layout)


def packed(file, secret):
    part = file.create_dataset("X/data", (1 << 32,), "<f4", chunks=(1 << 22,), compression="gzip")
    part.id.write_direct_chunk((0,), zlib.compress(bytes(1 << 24)))


LINKS = {
    "external link": replaced("X/data", lambda file, secret: file.__setitem__("X/data", h5py.ExternalLink(secret, "secret"))),
    "soft link": replaced("X/data", lambda file, secret: file.__setitem__("X/data", h5py.SoftLink("/Y/data"))),
    "external storage": replaced(
        "X/data", lambda file, secret: file.create_dataset("X/data", (100,), "<f4", external=[(str(secret), 0, 9999)])
    ),
    "virtual": replaced("X/data", virtual),
    "cycle": replaced("splits", lambda file, secret: file.__setitem__("splits", file["/"])),
    "never written": created("X/indices", (1 << 40,), "<i4"),
    "hardly written": replaced("X/data", packed),
    "many chunks": created("X/data", (1 << 45,), "<f4", chunks=(1,)),
    "huge chunk": created("X/data", (9,), "<f4", chunks=(1 << 28,), maxshape=(None,)),
    "strings never written": created("row_ids", (1 << 40,), h5py.string_dtype()),
    "objects": created("row_ids", (20,), h5py.ref_dtype),
    "labels": replaced("label_names", lambda file, secret: file["Y"].attrs.modify("shape", np.array([20, 1 << 40]))),
}


@pytest.mark.parametrize("kind", LINKS)
def test_dataset_opens_no_other_file_and_uses_no_claimed_memory(tmp_path, data, kind):
    with h5py.File(tmp_path / "secret.h5", "w") as secret:
        secret["secret"] = np.zeros(100, dtype="<f4")
    with h5py.File(data, "r+") as file:
        LINKS[kind](file, tmp_path / "secret.h5")
    n_bytes, message = peak(lambda: info(mpi.self_comm(), data, [1]))
    assert n_bytes < 1 << 24 and message.startswith(f"{data}: ")


def test_rejects_strings_that_share_one_long_string(data):
    with h5py.File(data, "r+") as file:
        file["row_ids"][0] = "x" * 100_000
        offset = file["row_ids"].id.get_offset()
    raw = bytearray(data.read_bytes())
    raw[offset : offset + 16 * 20] = raw[offset : offset + 16] * 20
    data.write_bytes(raw)
    with DataFile(data) as dataset:
        n_bytes, _ = peak(lambda: dataset.strings("row_ids"))
    assert n_bytes < 1 << 20


@pytest.mark.parametrize("size", [-16, -8, 0, 1 << 40])
def test_rejects_a_string_heap_that_hdf5_would_never_leave(data, size):
    raw = bytearray(data.read_bytes())
    heap = next(position for position in range(0, len(raw), 8) if raw[position : position + 4] == b"GCOL")
    raw[heap + 24 : heap + 32] = (size % 2**64).to_bytes(8, "little")
    if size == 0:
        raw[heap + 16 : heap + 18] = bytes(2)
    data.write_bytes(raw)
    with pytest.raises(DataError):
        DataFile(data)


def test_accepts_sound_files(data, classifier):
    for path in (data, classifier):
        with h5py.File(path, "r", locking=False) as file:
            check_parts(file)
    with h5py.File(data) as file, mmap.mmap(file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ) as content:
        assert content[:4] == b"\x89HDF"
        assert read_strings(file["row_ids"]) == make.names("r", 20)
        assert read_strings(file["row_ids"], 3, 5) == ["r3", "r4"]
        assert read_strings(file["row_ids"], 5, 5) == []


@pytest.mark.parametrize("open_file", [DataFile, open_model])
def test_checks_a_file_once_with_a_time_limit(tmp_path, monkeypatch, open_file):
    path = make.dataset(tmp_path / "data.h5", np.ones((3, 2)), np.ones((3, 1)))
    limited = []

    @contextlib.contextmanager
    def time_limit(seconds, sentence):
        limited.append(sentence)
        yield

    monkeypatch.setattr("hpcml.mpi.time_limit", time_limit)
    with contextlib.suppress(DataError):  # open_model rejects a dataset
        open_file(path)
    assert len(limited) == 1 and str(path) in limited[0]
