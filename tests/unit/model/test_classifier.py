"""Files of classifiers: content, reproducible bytes, and damaged files."""

import io
import json
import pickle
import sys
import zipfile

import h5py
import numpy as np
import pytest
from support import make
from support.edits import archived, attributes, edit, remove, replace
from support.judged import judged, predicted

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError
from hpcml.model import scoring, skops_file
from hpcml.model.classifier import ClassifierModel, check_savable, is_own
from hpcml.model.learner import LEARNERS, Constant, fit, parse_learner, scores
from hpcml.model.open import open_model
from hpcml.model.scoring import make_scorer

SAVED = [
    *LEARNERS,
    "sklearn.linear_model.LogisticRegression",
    "sklearn.naive_bayes.GaussianNB",
    "sklearn.ensemble.AdaBoostClassifier n_estimators=3",
    "sklearn.ensemble.RandomForestClassifier n_estimators=3",
]
NAMES = {2: ["class 1"], 3: list("abc")}


def fitted(base, n_classes=3, seed=0):
    X, y, _ = make.class_data(seed, 80, 7, n_classes)
    learner = parse_learner(base.split())
    X = X if learner.accepts_sparse else X.toarray()
    return fit(learner, X, y, 1), X


@pytest.mark.parametrize(("base", "n_classes"), [*((base, 3) for base in SAVED), ("tree", 2), ("linear-svm", 2)])
def test_reads_what_was_written(tmp_path, base, n_classes):
    X, y, _ = make.class_data(0, 80, 7, n_classes)
    dense = not parse_learner(base.split()).accepts_sparse
    path = make.classifier(tmp_path / "model.h5", base, X, y, NAMES[n_classes], dense=dense, margin_rows=[1, 5, 9])
    model = open_model(path)
    assert isinstance(model, ClassifierModel)
    assert (model.label_names, model.n_labels, model.n_classes) == (NAMES[n_classes], len(NAMES[n_classes]), n_classes)
    assert (model.n_features, model.dense, model.cycle, model.attrs["split"]) == (7, dense, 3, "all")
    assert (model.attrs["method"], model.attrs["validation_error"]) == ("probe", 0.25)
    assert model.base["name"] == base.split()[0]
    assert model.base["options"] == dict(parse_learner(base.split()).options)
    assert (model.margin_rows.tolist(), model.margin_weights.tolist()) == ([1, 5, 9], [1, 1, 1])
    assert model.labels["steps"].tolist() == [0] * model.n_labels
    given = X.toarray() if dense else X
    expected = scores(fit(parse_learner(base.split()), given, y, 0), given, n_classes)
    assert scores(model.classifier, given, n_classes).tobytes() == expected.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == ["model.h5"]


@pytest.mark.parametrize("base", ["tree", "kernel-nb", "linear-svm", SAVED[-2]])
def test_bytes_depend_on_the_classifier_only(base):
    classifier, _ = fitted(base)
    same = [pickle.loads(pickle.dumps(classifier, 5)), fitted(base)[0]]
    assert {make.classifier_bytes(each) for each in same} == {make.classifier_bytes(classifier)}
    assert make.classifier_bytes(fitted(base, seed=1)[0]) != make.classifier_bytes(classifier)
    if not is_own(classifier):
        dump = skops_file.dump(classifier)
        assert skops_file.dump(skops_file.load(dump, 7)) == dump == skops_file.canonical(dump)
        with zipfile.ZipFile(io.BytesIO(dump)) as archive:
            assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
            assert "__id__" not in archive.read("schema.json").decode()


@pytest.mark.parametrize(("base", "n_classes"), [("tree", 2), ("kernel-nb", 3), ("gaussian-nb", 2)])
def test_reads_own_classifiers_without_skops(tmp_path, monkeypatch, base, n_classes):
    X, y, _ = make.class_data(0, 80, 7, n_classes)
    for name in ("skops", "skops.io"):
        monkeypatch.setitem(sys.modules, name, None)
    path = make.classifier(tmp_path / "model.h5", base, X, y, NAMES[n_classes], dense=True)
    expected = fit(parse_learner([base]), X.toarray(), y, 0)
    classifier = ClassifierModel(path).classifier
    assert type(classifier) is type(expected)
    assert make.classifier_bytes(classifier) == make.classifier_bytes(expected)


OWN_DAMAGE = {
    **{
        f"{name} short": replace(f"classifier/{name}", lambda values: values[:-1])
        for name in ("value_start_", "table_start_", "table_", "zero_log_")
    },
    "array short": replace("classifier/bandwidth_", lambda values: values[:-1]),
    "array of another type": replace("classifier/table_start_", lambda values: values.astype("<i4")),
    "starts out of the array": replace("classifier/table_start_", lambda values: values + 1000),
    "array missing": remove("classifier/precision_"),
    "classes are numbers with fractions": replace("classifier/classes_", lambda values: values + 0.5),
    "no classes": remove("classifier/classes_"),
    "a method": lambda file: file["classifier"].create_dataset("confidence", data=np.zeros(1)),
    "width": attributes({"n_features_in_": 8}, "classifier"),
    "width is a text": attributes({"n_features_in_": "7"}, "classifier"),
    "unknown kind": attributes({"kind": "os.system"}, "classifier"),
    "another kind": attributes({"kind": "tree"}, "classifier"),
    "no kind": lambda file: file["classifier"].attrs.pop("kind"),
}


def test_constant_classifier(tmp_path):
    X, _, _ = make.class_data(0, 20, 4, 2)
    for label in (0, 1):
        model = ClassifierModel(make.classifier(tmp_path / f"{label}.h5", "tree", X, np.full(20, label)))
        assert isinstance(model.classifier, Constant)
        assert scores(model.classifier, X, 2).tolist() == [[2 * label - 1]] * 20


def test_rejects_unsavable_learners_before_training():
    for base in ("kernel-nb", SAVED[-1]):
        check_savable(parse_learner(base.split()), 3)
    kinds = ("HistGradientBoostingClassifier max_iter=2", "GradientBoostingClassifier")
    bases = [f"sklearn.ensemble.{kind}" for kind in kinds]
    for base in (*bases, "sklearn.neighbors.KNeighborsClassifier", "sklearn.svm.SVC", "sklearn.svm.NuSVC"):
        learner = parse_learner(base.split())
        with pytest.raises(ConfigError, match=r"^--base sklearn.*cannot be saved") as raised:
            check_savable(learner)
        assert "\n" not in str(raised.value)
    check_savable(learner, save=False)


def make_files(tmp_path, base, n_classes, n_rows=150, dense=False):
    X, y, Y = make.class_data(2, n_rows, 11, n_classes)
    splits = {"test": range(0, n_rows, 2)}
    data = make.dataset(tmp_path / "data.h5", X, Y, label_names=NAMES[n_classes], splits=splits)
    path = make.classifier(tmp_path / "model.h5", base, X[:60], y[:60], NAMES[n_classes], dense=dense)
    return X, y, data, path


@pytest.mark.parametrize(("base", "dense"), [("tree", True), ("tree", False), ("kernel-nb", False), ("linear-svm", True)])
def test_block_sizes_do_not_change_bits(tmp_path, monkeypatch, base, dense):
    _, _, data, path = make_files(tmp_path, base, 3, dense=dense)
    results = []
    for rows_bytes, score_bytes in ((1 << 26, 1 << 25), (1, 1 << 25), (1000, 240)):
        monkeypatch.setattr(scoring, "ROWS_BYTES", rows_bytes)
        monkeypatch.setattr(scoring, "SCORE_BYTES", score_bytes)
        result = judged(path, data, "test")
        table = predicted(path, data, tmp_path / "out.csv", split="test", force=True).read_bytes()
        with h5py.File(predicted(path, data, tmp_path / "out.h5", "scores", "test", force=True)) as file:
            written = file["scores"][:]
        with DataFile(data) as dataset:
            shard = load_shard(mpi.self_comm(), dataset, "test")
            pairs = make_scorer(open_model(path), shard, np.arange(3)).score_pairs(
                np.repeat(shard.rows, 3), np.tile(np.arange(3), 75)
            )
        values = [value.tobytes() for value in result.values.values()]
        results.append((values, repr(result.micro), table, pairs.tobytes()))
        assert written.tobytes() == pairs.tobytes()
    assert results[0] == results[1] == results[2]


def edit_nodes(field, place, value):

    def change(members):
        for name, content in members.items():
            array = np.load(io.BytesIO(content)) if name.endswith(".npy") else np.zeros(0)
            if array.dtype.names:
                array[field][place] = value
                out = io.BytesIO()
                np.save(out, array)
                members[name] = out.getvalue()

    return archived(change)


def edit_schema(old, new):
    def change(members):
        text = members["schema.json"].decode()
        assert old in text
        members["schema.json"] = text.replace(old, new).encode()

    return archived(change)


def last_byte(file):
    values = file["classifier"][:]
    values[len(values) // 3] ^= 255
    file["classifier"][:] = values


def count_of_nodes(members):
    schema = json.loads(members["schema.json"])
    schema["content"]["content"]["tree_"]["content"]["content"]["node_count"]["content"] = "1000000"
    members["schema.json"] = json.dumps(schema).encode()


def wide_tree(members):
    """Let the tree ask for a feature that its own width allows but a row does not have."""
    schema = json.loads(members["schema.json"])
    tree = schema["content"]["content"]["tree_"]
    tree["__reduce__"]["args"]["content"][0]["content"] = "1000000"
    name = tree["content"]["content"]["nodes"]["file"]
    nodes, out = np.load(io.BytesIO(members[name])), io.BytesIO()
    nodes["feature"][0] = 999_999
    np.save(out, nodes)
    members.update({"schema.json": json.dumps(schema).encode(), name: out.getvalue()})


DAMAGE = {
    **{f"no {name}": remove(name) for name in ("classifier", "label_names", "margin")},
    "no cycle": lambda file: file["margin"].attrs.pop("cycle"),
    "no vocabulary": lambda file: file.attrs.pop("vocabulary"),
    "base": lambda file: file.attrs.modify("base", "{"),
    "weights short": replace("margin/weights", lambda _: np.ones(1, dtype="<f4")),
    "rows out of order": replace("margin/rows", lambda _: np.array([2, 0])),
    "classifier empty": replace("classifier", lambda _: np.zeros(0, dtype="u1")),
    "classifier truncated": replace("classifier", lambda values: values[:-200]),
    "one byte": last_byte,
    "two names": replace("label_names", lambda _: ["a", "b"]),
    "fewer names": replace("label_names", lambda _: ["a"]),
    "width": lambda file: file.attrs.modify("n_features", 8),
    "foreign type": edit_schema('"sklearn.tree._classes"', '"os.path"'),
    "child outside": edit_nodes("left_child", 0, 10**9),
    "child negative": edit_nodes("right_child", 0, -5),
    "cycle": edit_nodes("right_child", 0, 0),
    "feature outside": edit_nodes("feature", 0, 7),
    "tree too wide": archived(wide_tree),
    "too many nodes": archived(count_of_nodes),
}
MESSAGES = {
    "foreign type": r"os\.path\.DecisionTreeClassifier",
    "child negative": "child",
    "cycle": "child",
    "tree too wide": "feature",
}


@pytest.mark.parametrize(("base", "kind"), [*(("tree", kind) for kind in DAMAGE), *(("kernel-nb", kind) for kind in OWN_DAMAGE)])
def test_rejects_damaged_files(tmp_path, base, kind):
    X, y, _ = make.class_data(0, 80, 7, 3)
    path = make.classifier(tmp_path / "model.h5", base, X, y, "abc")
    edit(path, (DAMAGE if base == "tree" else OWN_DAMAGE)[kind])
    text = MESSAGES.get(kind, "") if base == "tree" else "damaged classifier"
    with pytest.raises(DataError, match=rf"model\.h5: .*{text}") as raised:
        ClassifierModel(path)
    assert "\n" not in str(raised.value)


def test_writing_is_atomic(tmp_path):
    X, y, _ = make.class_data(0, 80, 7, 2)
    path = make.classifier(tmp_path / "model.h5", "tree", X, y)
    before = path.read_bytes()
    make.classifier(path, "stump", X, y)  # replaces it
    assert path.read_bytes() != before
    with pytest.raises(TypeError):
        make.classifier(path, "tree", X, y, label_names=[object()])
    assert ClassifierModel(path).base["name"] == "stump"
    with pytest.raises(DataError, match="nowhere does not exist"):
        make.classifier(tmp_path / "nowhere" / "model.h5", "tree", X, y)
    assert [file.name for file in tmp_path.iterdir()] == ["model.h5"]
