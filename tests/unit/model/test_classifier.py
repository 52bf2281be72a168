"""The file of a classifier: what it holds, that its bytes depend on the content alone, and what is refused."""

import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from sklearn import metrics
from support import make
from support.edits import archived, attributes, edit, remove, replace
from support.judged import judged, predicted

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError
from hpcml.model import scoring, skops_file
from hpcml.model.classifier import ClassifierModel, check_savable, is_own
from hpcml.model.learner import LEARNERS, LOWEST, Constant, fit, parse_learner, scores
from hpcml.model.linear import Model
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


@pytest.mark.parametrize("base", SAVED)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_is_written_is_read(tmp_path, base, n_classes):
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


@pytest.mark.parametrize("base", SAVED)
def test_bytes_depend_on_the_classifier_alone(base):
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


@pytest.mark.parametrize("base", ["tree", "kernel-nb", "gaussian-nb"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_our_classifiers_are_read_where_skops_is_not_installed(tmp_path, monkeypatch, base, n_classes):
    X, y, _ = make.class_data(0, 80, 7, n_classes)
    for name in ("skops", "skops.io"):
        monkeypatch.setitem(sys.modules, name, None)
    path = make.classifier(tmp_path / "model.h5", base, X, y, NAMES[n_classes], dense=True)
    expected = fit(parse_learner([base]), X.toarray(), y, 0)
    found = ClassifierModel(path).classifier
    assert type(found) is type(expected)
    assert make.classifier_bytes(found) == make.classifier_bytes(expected)


OWN_DAMAGE = {
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


@pytest.mark.parametrize("kind", OWN_DAMAGE)
def test_damage_of_our_classifiers_is_refused(tmp_path, kind):
    X, y, _ = make.class_data(0, 80, 7, 3)
    path = make.classifier(tmp_path / "model.h5", "kernel-nb", X, y, "abc")
    assert ClassifierModel(path).n_classes == 3
    edit(path, OWN_DAMAGE[kind])
    with pytest.raises(DataError, match=r"model\.h5: damaged classifier") as raised:
        ClassifierModel(path)
    assert "\n" not in str(raised.value)


ELSEWHERE = """
import sys
sys.path.insert(0, sys.argv[1])
from support import make
X, y, _ = make.class_data(0, 80, 7, 3)
for number, base in enumerate(sys.argv[3:]):
    make.classifier(f"{sys.argv[2]}/{number}.h5", base, X.toarray(), y, "abc")
"""


def test_another_process_writes_the_same_bytes(tmp_path):
    bases = [*LEARNERS, "sklearn.ensemble.AdaBoostClassifier n_estimators=2"]
    command = [sys.executable, "-c", ELSEWHERE, str(Path(make.__file__).parents[1]), str(tmp_path), *bases]
    subprocess.run(command, check=True, timeout=200)
    X, y, _ = make.class_data(0, 80, 7, 3)
    for number, base in enumerate(bases):
        here = make.classifier(tmp_path / "here.h5", base, X.toarray(), y, "abc")
        assert (tmp_path / f"{number}.h5").read_bytes() == here.read_bytes(), base


def test_a_constant_is_a_classifier_too(tmp_path):
    X, _, _ = make.class_data(0, 20, 4, 2)
    for label in (0, 1):
        model = ClassifierModel(make.classifier(tmp_path / f"{label}.h5", "tree", X, np.full(20, label)))
        assert isinstance(model.classifier, Constant)
        assert scores(model.classifier, X, 2).tolist() == [[2 * label - 1]] * 20


def test_learners_that_cannot_be_saved_are_refused_before_training():
    for base in SAVED:
        for n_classes in (2, 3):
            check_savable(parse_learner(base.split()), n_classes)
    kinds = ("HistGradientBoostingClassifier max_iter=2", "GradientBoostingClassifier")
    bases = [f"sklearn.ensemble.{kind}" for kind in kinds]
    for base in (*bases, "sklearn.neighbors.KNeighborsClassifier", "sklearn.svm.SVC", "sklearn.svm.NuSVC"):
        learner = parse_learner(base.split())
        with pytest.raises(ConfigError, match=r"--base sklearn.*its classifiers cannot be saved; choose one") as raised:
            check_savable(learner)
        assert "\n" not in str(raised.value)
    check_savable(learner, save=False)


def make_files(tmp_path, base, n_classes, n_rows=150, dense=False):
    X, y, Y = make.class_data(2, n_rows, 11, n_classes)
    splits = {"test": range(0, n_rows, 2)}
    data = make.dataset(tmp_path / "data.h5", X, Y, label_names=NAMES[n_classes], splits=splits)
    path = make.classifier(tmp_path / "model.h5", base, X[:60], y[:60], NAMES[n_classes], dense=dense)
    return X, y, data, path


@pytest.mark.parametrize("base", [*LEARNERS, "sklearn.naive_bayes.GaussianNB"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_measures_are_those_of_sklearn(tmp_path, base, n_classes):
    dense = not parse_learner(base.split()).accepts_sparse
    X, y, data, path = make_files(tmp_path, base, n_classes, dense=dense)
    model = open_model(path)
    given = X.toarray() if dense else X
    result = judged(model, data)
    expected = scores(model.classifier, given, n_classes)
    for label in range(model.n_labels):
        truth = y == (1 if n_classes == 2 else label)
        assert result.values["auc"][label] == pytest.approx(metrics.roc_auc_score(truth, expected[:, label]), abs=1e-13)
        f1 = metrics.f1_score(truth, expected[:, label] > 0)
        assert result.values["f1"][label] == pytest.approx(f1, abs=1e-13)
        assert result.values["misclassified"][label] == (truth != (expected[:, label] > 0)).sum()
        if np.unique(expected[:, label]).size == 150:
            prc = metrics.average_precision_score(truth, expected[:, label])
            assert result.values["average_precision"][label] == pytest.approx(prc, abs=1e-13)
    if n_classes == 2:
        accuracy = metrics.accuracy_score(y, model.classifier.predict(given))
        assert result.values["misclassified"][0] == round((1 - accuracy) * 150)
        positive = model.classifier.predict_proba(given)[:, 1] if hasattr(model.classifier, "predict_proba") else expected[:, 0]
        assert result.values["auc"][0] == pytest.approx(metrics.roc_auc_score(y, positive), abs=1e-13)
    assert "precision" in str(result)


@pytest.mark.parametrize("base", list(LEARNERS))
@pytest.mark.parametrize("dense", [False, True])
def test_blocks_of_rows_change_no_bit(tmp_path, monkeypatch, base, dense):
    _, _, data, path = make_files(tmp_path, base, 3, dense=dense)
    found = []
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
        found.append((values, repr(result.micro), table, pairs.tobytes()))
        assert written.tobytes() == pairs.tobytes()
    assert found[0] == found[1] == found[2]


def test_chosen_labels_and_classes_that_were_not_seen(tmp_path):
    X, y, Y = make.class_data(2, 150, 11, 3)
    some = np.flatnonzero(y != 1)[:60]
    model = open_model(make.classifier(tmp_path / "model.h5", "linear-svm", X[some], y[some], "abc"))
    data = make.dataset(tmp_path / "data.h5", X, Y, label_names=list("abc"))
    everything, last = judged(model, data), judged(model, data, labels=[2])
    assert last.label_names == ["c"]
    for name, values in everything.values.items():
        assert last.values[name].tobytes() == values[2:].tobytes()
    assert (everything.values["auc"][1], everything.values["recall"][1]) == (0.5, 0)
    with h5py.File(predicted(model, data, tmp_path / "out.h5", "scores")) as file:
        assert (file["scores"][:, 1] == LOWEST).all()


def test_the_features_must_be_the_same(tmp_path):
    X, y, Y = make.class_data(2, 50, 5, 2)
    model = open_model(make.classifier(tmp_path / "model.h5", "tree", X, y))
    with DataFile(make.dataset(tmp_path / "data.h5", X[:, :4], Y)) as dataset, pytest.raises(DataError, match="has 4 features but"):
        model.check_vocabulary(dataset)


def test_every_kind_of_model_is_opened(tmp_path):
    assert isinstance(open_model(make.model(tmp_path / "model.h5", np.eye(2))), Model)
    with pytest.raises(DataError, match="this is an hpcml dataset; expected a model"):
        open_model(make.dataset(tmp_path / "data.h5", np.eye(2), np.eye(2)))
    with pytest.raises(DataError, match=r"absent\.h5: cannot read: No such file"):
        open_model(tmp_path / "absent.h5")
    (tmp_path / "text").write_text("text")
    with pytest.raises(DataError, match="not an HDF5 file"):
        open_model(tmp_path / "text")


def edit_nodes(field, place, value):
    """Change a field of a tree's node."""

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
    "no classifier": (remove("classifier"), "a part is missing"),
    "no names": (remove("label_names"), "a part is missing"),
    "no margin": (remove("margin"), "a part is missing"),
    "no cycle": (lambda file: file["margin"].attrs.pop("cycle"), "a part is missing"),
    "no vocabulary": (lambda file: file.attrs.pop("vocabulary"), "a part is missing"),
    "base": (lambda file: file.attrs.modify("base", "{"), "a part is missing"),
    "weights short": (replace("margin/weights", lambda _: np.ones(1, dtype="<f4")), "of another size"),
    "rows out of order": (replace("margin/rows", lambda _: np.array([2, 0])), "of another size"),
    "classifier empty": (replace("classifier", lambda _: np.zeros(0, dtype="u1")), "damaged classifier"),
    "classifier cut": (replace("classifier", lambda values: values[:-200]), "damaged classifier"),
    "a byte": (last_byte, "damaged classifier"),
    "two names": (replace("label_names", lambda _: ["a", "b"]), "of another size"),
    "other names": (replace("label_names", lambda _: ["a", "b", "c", "d"]), None),
    "fewer names": (replace("label_names", lambda _: ["a"]), "its classes or features are not those"),
    "width": (lambda file: file.attrs.modify("n_features", 8), "its classes or features are not those"),
    "another type": (edit_schema('"DecisionTreeClassifier"', '"DecisionTreeKlassifier"'), "DecisionTreeKlassifier"),
    "foreign type": (
        edit_schema('"sklearn.tree._classes"', '"os.path"'),
        r"it holds a os\.path\.DecisionTreeClassifier .*not supported",
    ),
    "child outside": (edit_nodes("left_child", 0, 10**9), "a tree leads out of its arrays"),
    "child negative": (edit_nodes("right_child", 0, -5), "a tree leads out of its arrays"),
    "circle": (edit_nodes("right_child", 0, 0), "a tree leads out of its arrays"),
    "feature outside": (edit_nodes("feature", 0, 7), "a tree leads out of its rows"),
    "tree too wide": (archived(wide_tree), "a tree leads out of its rows"),
    "too many nodes": (archived(count_of_nodes), "the arrays of a tree do not fit one another"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused(tmp_path, kind):
    X, y, _ = make.class_data(0, 80, 7, 3)
    path = make.classifier(tmp_path / "model.h5", "tree", X, y, "abc")
    damage, message = DAMAGE[kind]
    edit(path, damage)
    if message is None:
        assert ClassifierModel(path).n_classes == 4
        return
    with pytest.raises(DataError, match=rf"model\.h5: .*{message}") as raised:
        ClassifierModel(path)
    assert "\n" not in str(raised.value)


def test_writing_is_whole_or_not_at_all(tmp_path):
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
