"""Files from strangers: they run no code, lead to no other file and take no more memory than their size allows."""

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


def suspicious(tree):
    """What in a module's source could run what a file says."""
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
    found = {path.name: list(suspicious(ast.parse(path.read_text(encoding="utf-8")))) for path in folder.rglob("*.py")}
    assert len(found) > 50
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "eval(x)",
        "os.system(x)",
        "np.load(f)",
        "np.load(f, allow_pickle=True)",
        "builtins.exec(x)",
    ],
)
def test_the_search_finds_what_it_should(source):
    assert list(suspicious(ast.parse(source)))


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.fixture
def classifier(tmp_path):
    X, y, _ = make.class_data(0, 60, 5, 3)
    return make.classifier(tmp_path / "model.h5", "linear-svm", X, y, "abc")


def repack(path, change, compression=zipfile.ZIP_STORED):
    """Change the members, a dict of bytes, of the archive in a classifier's file."""
    edit(path, archived(change, compression))


def first_array(members):
    return next(name for name in sorted(members) if name.endswith(".npy"))


def peak(action):
    """The most memory, in bytes, that Python and numpy took meanwhile."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as raised:
            action()
        assert len(str(raised.value).splitlines()) == 1
        return tracemalloc.get_traced_memory()[1], str(raised.value)
    finally:
        tracemalloc.stop()


def test_a_pickle_in_a_model_is_never_read(tmp_path, classifier):
    marker = tmp_path / "marker"
    payload = pickle.dumps(Payload(marker))
    pickle.loads(payload)  # so the payload works
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


CALLED = ("os.system", "posix.system", "builtins.eval", "builtins.exec", "functools.partial", "subprocess.Popen", "pickle.loads")


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("loader", ["FunctionNode", "TypeNode", "ObjectNode", "ConstructorFromReduceNode", "PartialNode"])
def test_a_schema_that_names_a_function_is_refused(tmp_path, classifier, name, loader):
    marker = tmp_path / "marker"
    module, _, function = name.rpartition(".")
    text = {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(f"touch {marker}"),
        "is_json": True,
    }
    arguments = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": [text]}

    def change(members):
        schema = json.loads(members["schema.json"])
        schema["content"]["content"]["intercept_"] = {
            "__class__": function,
            "__module__": module,
            "__loader__": loader,
            "content": {"func": text, "args": arguments} if loader == "PartialNode" else arguments,
        }
        members["schema.json"] = json.dumps(schema).encode()

    repack(classifier, change)
    with pytest.raises(DataError, match=r"not supported|damaged classifier") as raised:
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
    """One large array, read by very many parts."""
    schema, name = json.loads(members["schema.json"]), first_array(members)
    out = io.BytesIO()
    np.save(out, np.zeros(10_000))
    members[name] = out.getvalue()
    node = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy", "file": name}
    schema["content"]["content"]["more"] = {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "content": [node] * 20_000,
    }
    members["schema.json"] = json.dumps(schema, separators=(",", ":")).encode()


@pytest.mark.parametrize("value", ["reference", "empty", "record", "texts", "no UTF-8"])
def test_attributes_are_texts_and_numbers(tmp_path, classifier, value):
    for path in (classifier, make.model(tmp_path / "linear.h5", np.eye(2))):
        with h5py.File(path, "r+") as file:
            values = {"reference": file.ref, "empty": h5py.Empty("<f4"), "record": np.zeros(1, dtype="i4,f4"), "texts": ["a", "b"]}
            values["no UTF-8"] = np.bytes_(b"\xff")
            file.attrs["method"] = values[value]
        with pytest.raises(DataError, match="damaged"):
            open_model(path)


def test_an_archive_takes_no_more_than_it_has(classifier):
    original = classifier.read_bytes()
    for change, compression in (
        (claim((1 << 27,)), zipfile.ZIP_STORED),
        (claim((1 << 60, 1 << 60)), zipfile.ZIP_STORED),
        (lambda members: members.update({first_array(members): bytes(1 << 27)}), zipfile.ZIP_DEFLATED),
    ):
        repack(classifier, change, compression)
        most, message = peak(lambda: open_model(classifier))
        assert most < 1 << 25, message
        assert "damaged classifier" in message
        classifier.write_bytes(original)
    repack(classifier, shared)
    _, message = peak(lambda: open_model(classifier))
    assert "many times the size of the archive" in message


def test_a_large_member_is_refused_before_it_is_read(classifier):
    original = classifier.read_bytes()
    large = bytes(1 << 27)
    for name, message in (
        ("more.npy", "unused member more.npy of 134217728 bytes"),
        (None, "damaged classifier"),
        ("schema.json", "the schema has"),
    ):
        repack(classifier, lambda members, name=name: members.update({name or first_array(members): large}))
        most, said = peak(lambda: open_model(classifier))
        assert most < 1 << 25, said
        assert message in said
        classifier.write_bytes(original)


def test_a_classifier_claims_no_width(classifier):
    edit(classifier, attributes({"n_features": 1 << 40, "dense": True}))
    most, message = peak(lambda: ClassifierModel(classifier))
    assert most < 1 << 25
    assert "dense rows of 1099511627776 features" in message


def test_trees_narrower_than_they_say_are_refused():
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
    def damage(file, folder):
        shape, dtype = file[name].shape, file[name].dtype
        del file[name]
        make_part(file, folder, shape, dtype)

    return damage


def virtual(file, folder, shape, dtype):
    layout = h5py.VirtualLayout(shape, dtype)
    layout[...] = h5py.VirtualSource(folder / "secret.h5", "secret", shape)
    file.create_virtual_dataset("X/data", layout)


def packed(file, folder, shape, dtype):
    part = file.create_dataset("X/data", (1 << 32,), "<f4", chunks=(1 << 22,), compression="gzip")
    part.id.write_direct_chunk((0,), zlib.compress(bytes(1 << 24)))


def circle(file, folder):
    del file["splits"]
    file["splits"] = file["/"]


ELSEWHERE = {
    "external link": replaced(
        "X/data", lambda file, folder, *_: file.__setitem__("X/data", h5py.ExternalLink(folder / "secret.h5", "secret"))
    ),
    "soft link": replaced("X/data", lambda file, *_: file.__setitem__("X/data", h5py.SoftLink("/Y/data"))),
    "external storage": replaced(
        "X/data",
        lambda file, folder, shape, dtype: file.create_dataset(
            "X/data", shape, dtype, external=[(str(folder / "secret.h5"), 0, 9999)]
        ),
    ),
    "virtual": replaced("X/data", virtual),
    "two names": circle,
    "never written": replaced("X/indices", lambda file, *_: file.create_dataset("X/indices", (1 << 40,), "<i4")),
    "hardly written": replaced("X/data", packed),
    "very many chunks": replaced("X/data", lambda file, *_: file.create_dataset("X/data", (1 << 45,), "<f4", chunks=(1,))),
    "huge chunk": replaced(
        "X/data", lambda file, *_: file.create_dataset("X/data", (9,), "<f4", chunks=(1 << 28,), maxshape=(None,))
    ),
    "strings never written": replaced("row_ids", lambda file, *_: file.create_dataset("row_ids", (1 << 40,), h5py.string_dtype())),
    "objects": replaced("row_ids", lambda file, *_: file.create_dataset("row_ids", (20,), h5py.ref_dtype)),
    "labels": lambda file, folder: (file.__delitem__("label_names"), file["Y"].attrs.modify("shape", np.array([20, 1 << 40]))),
}


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_a_dataset_points_nowhere_and_claims_nothing(tmp_path, data, kind):
    with h5py.File(tmp_path / "secret.h5", "w") as secret:
        secret["secret"] = np.zeros(100, dtype="<f4")
    with h5py.File(data, "r+") as file:
        ELSEWHERE[kind](file, tmp_path)
    most, message = peak(lambda: info(mpi.self_comm(), data, [1]))
    assert most < 1 << 24
    assert message.startswith(f"{data}: ")


def test_strings_of_which_each_is_the_largest(data):
    """All row ids are the same long string, told once: 20 times its size would be read."""
    with h5py.File(data, "r+") as file:
        file["row_ids"][0] = "x" * 100_000
        offset = file["row_ids"].id.get_offset()
    raw = bytearray(data.read_bytes())
    raw[offset : offset + 16 * 20] = raw[offset : offset + 16] * 20
    data.write_bytes(raw)
    with DataFile(data) as dataset:
        most, message = peak(lambda: dataset.strings("row_ids"))
    assert "claims longer strings than the file has" in message
    assert most < 1 << 20


def heaps(path):
    """Where the heaps of strings of a file lie."""
    raw = path.read_bytes()
    places = [place for place in range(0, len(raw), 8) if raw[place : place + 4] == b"GCOL"]
    assert places
    return places


@pytest.mark.parametrize("size", [-16, -8, 0, 1 << 40])
def test_a_heap_that_hdf5_would_follow_for_ever(data, size):
    """The size of an object in a heap of strings lets HDF5 take a step of no length, or one out of the heap."""
    place = heaps(data)[0]
    raw = bytearray(data.read_bytes())
    raw[place + 24 : place + 32] = (size % 2**64).to_bytes(8, "little")
    if size == 0:
        raw[place + 16 : place + 18] = bytes(2)
    data.write_bytes(raw)
    with pytest.raises(DataError, match="the strings are damaged"):
        DataFile(data)


def test_sound_files_pass(data, classifier):
    for path in (data, classifier):
        with h5py.File(path, "r", locking=False) as file:
            check_parts(file)
    with h5py.File(data) as file, mmap.mmap(file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ) as content:
        assert content[:4] == b"\x89HDF"
        assert read_strings(file["row_ids"]) == make.names("r", 20)
        assert read_strings(file["row_ids"], 3, 5) == ["r3", "r4"]
        assert read_strings(file["row_ids"], 5, 5) == []


@pytest.mark.parametrize("open_file", [DataFile, open_model])
def test_a_file_is_looked_at_once_with_a_time_limit(tmp_path, monkeypatch, open_file):
    path = make.dataset(tmp_path / "data.h5", np.ones((3, 2)), np.ones((3, 1)))
    limited = []

    @contextlib.contextmanager
    def time_limit(seconds, sentence):
        limited.append(sentence)
        yield

    monkeypatch.setattr("hpcml.mpi.time_limit", time_limit)
    with contextlib.suppress(DataError):  # a dataset is no model
        open_file(path)
    assert len(limited) == 1
    assert all(str(path) in sentence for sentence in limited)
