import csv
import json

import h5py
import numpy as np
import pytest
import support.training as training
from support import make

from hpcml import mpi
from hpcml.conversion.convert import convert
from hpcml.conversion.options import ConvertOptions
from hpcml.data.dataset import DataFile
from hpcml.data.info import info
from hpcml.errors import ConfigError
from hpcml.evaluation import evaluate
from hpcml.evaluation.explain import explain
from hpcml.evaluation.thresholds import ThresholdSearch, threshold
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.prediction.predict import write_scores
from hpcml.reduce.files import reduce_dataset
from hpcml.reduce.prune import prune

SELF, QUIET = mpi.self_comm(), Log(1)
TITLES = ["Apples", "", "Pears, Dried", "Plums"]


def rows():
    X, Y = make.random_data(3, 60, 40, 4)
    return X, Y, list("abcd"), {"train": range(0, 60, 2), "test": range(1, 60, 2)}


def dataset(path, titles):
    X, Y, names, splits = rows()
    return make.dataset(path, X, Y, label_names=names, splits=splits, label_titles=titles)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return dataset(tmp_path_factory.mktemp("data") / "data.h5", TITLES)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    return train(data, tmp_path_factory.mktemp("run") / "run")


def train(data, run, method="probe", **options):
    training.train(method, None, data, run, options, log=QUIET)
    return run


def titles(path):
    return Model(path).label_titles


def test_trained_models_have_titles(data, run, tmp_path):
    assert titles(run / "model.h5") == TITLES
    assert titles(train(data, tmp_path / "some", label=("c", "a")) / "model.h5") == ["Apples", "Pears, Dried"]
    assert titles(train(data, tmp_path / "none", label=("b",)) / "model.h5") is None
    assert titles(train(data, tmp_path / "sparse", "dual", drop=1e-3) / "model.h5") == TITLES


def test_derived_files_keep_titles(data, run, tmp_path):
    with DataFile(data) as rows:
        reduce_dataset(SELF, rows, np.arange(5), tmp_path / "few.h5", force=False)
        prune(SELF, Model(run / "model.h5"), rows, "test", [0.01], tmp_path / "pruned.h5", False, QUIET)
        write_scores(SELF, Model(run / "model.h5"), rows, "test", tmp_path / "scores.h5", False, QUIET)
    with DataFile(tmp_path / "few.h5") as few:
        assert few.label_titles() == TITLES
        assert few.label_titles(np.array([2, 0])) == ["Pears, Dried", "Apples"]
    assert titles(tmp_path / "pruned.h5") == TITLES
    with h5py.File(tmp_path / "scores.h5") as scores:
        assert scores["label_titles"].asstr()[:].tolist() == TITLES
    with DataFile(data) as rows:
        threshold(SELF, Model(tmp_path / "pruned.h5"), rows, "test", ThresholdSearch("micro"))
    assert titles(tmp_path / "pruned.h5") == TITLES


def test_reports_contain_titles(data, run, tmp_path):
    model = Model(run / "model.h5")
    with DataFile(data) as rows:
        found = evaluate(SELF, model, rows, "test", QUIET, [0, 1, 2])
        shown = str(explain(SELF, model, ["a", "b"], 3, False))
    assert "a Apples: " in shown
    assert "\nb: " in shown
    text = str(found)
    assert "  c Pears, Dried " in text
    assert "  b (" in text
    found.write_csv(tmp_path / "e.csv")
    found.write_json(tmp_path / "e.json")
    with (tmp_path / "e.csv").open(newline="") as file:
        assert [(line["label"], line["title"]) for line in csv.DictReader(file)] == [*zip("abc", TITLES[:3], strict=True)]
    assert [line["title"] for line in json.loads((tmp_path / "e.json").read_text())["labels"]] == TITLES[:3]
    assert "d Plums " in info(SELF, data, [])


def test_convert_reads_titles_from_descriptors_or_like(tmp_path):
    documents = [{"text": "apples and pears", "labels": ["D2", "D1"]}, {"text": "apples", "labels": ["D3"]}]
    source, terms = tmp_path / "in.jsonl", tmp_path / "terms.txt"
    source.write_text("".join(json.dumps(each) + "\n" for each in documents))
    terms.write_text("Pears=D2\nApples=D1\nOthers=D9\n")

    def made(name, **options):
        convert(SELF, "jsonl", [source], tmp_path / name, ConvertOptions(**options), False, QUIET)
        with DataFile(tmp_path / name) as found:
            return found.label_names(), found.label_titles()

    assert made("titled.h5", descriptors=terms) == (["D1", "D2", "D3"], ["Apples", "Pears", ""])
    assert made("like.h5", like=tmp_path / "titled.h5") == (["D1", "D2", "D3"], ["Apples", "Pears", ""])
    assert made("plain.h5") == (["D1", "D2", "D3"], None)
    terms.write_text("Others=D9\n")
    with pytest.raises(ConfigError, match="none of the labels, such as 'D1'"):
        made("none.h5", descriptors=terms)
    assert not (tmp_path / "none.h5").exists()
