import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score
from support.make import dataset

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.leaks import auc_of_feature
from hpcml.data.shard import load_shard
from hpcml.log import Log

SAID = "alone determines label"


def reported(path, X, Y, capsys, method="dual", **options):
    X = sp.csr_matrix(X, dtype=np.float32)
    path.unlink(missing_ok=True)
    data = dataset(path, X, Y, feature_names=[f"f{j}" for j in range(X.shape[1])])
    hpcml.train(method, data, path.with_suffix(""), force=True, log=Log(0), **options)
    lines = [line for line in capsys.readouterr().err.splitlines() if SAID in line]
    assert all("warning: " in line and "it may leak the label" in line for line in lines)
    return {(line.split("feature '")[1].split("'")[0], line.split("label '")[1].split("'")[0]) for line in lines}


def indicator(y):
    return np.eye(y.max() + 1)[y]


@pytest.mark.parametrize("method", ["dual", "psbml", "pa"])
def test_reports_columns_that_determine_a_label(tmp_path, capsys, method):
    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    X = rng.uniform(0.5, 1.0, (900, 9))
    X[:, 1] = y == 1
    X[:, 4] = 10.0 * (y == 2) + rng.normal(size=900)
    X[:, 6] = 2.0 - (y == 0)
    X[:, 8] = y
    wanted = {("f1", "label1"), ("f4", "label2"), ("f6", "label0"), ("f8", "label0"), ("f8", "label2")}
    assert reported(tmp_path / "data.h5", X, indicator(y), capsys, method) == wanted
    X[:, [1, 4, 6, 8]] = X[:, [0, 2, 3, 5]]
    assert not reported(tmp_path / "data.h5", X, indicator(y), capsys, method)


@pytest.mark.parametrize(("noise", "said"), [(0.2, True), (0.3, False)])
def test_reports_from_an_auc_of_0_999(tmp_path, capsys, noise, said):
    rng = np.random.default_rng(2)
    y = rng.random(3000) < 0.3
    x = y + noise * rng.normal(size=3000)
    x -= 4.0
    area = roc_auc_score(y, x.astype(np.float32))
    assert (area >= 0.999) == said
    X = np.column_stack([rng.random((3000, 3)), x])
    assert (("f3", "label0") in reported(tmp_path / "data.h5", X, y[:, None].astype(float), capsys)) == said
    with DataFile(tmp_path / "data.h5") as data:
        shard = load_shard(mpi.self_comm(), data, "all")
        assert auc_of_feature(mpi.self_comm(), shard, 0, 3) == pytest.approx(area, abs=1e-12)


def test_uses_training_rows_and_trained_labels_only(tmp_path, capsys):
    y = np.arange(200) % 2
    X = np.random.default_rng(0).random((200, 4))
    X[:150, 2] = y[:150]
    data = dataset(tmp_path / "data.h5", X, indicator(y), splits={"train": np.arange(150), "test": np.arange(150, 200)})
    for options, said in (({}, 2), ({"label": ("label1",)}, 1), ({"split": "all"}, 0)):
        hpcml.train("dual", data, tmp_path / "run", force=True, log=Log(0), **options)
        assert capsys.readouterr().err.count(SAID) == said


def test_ignores_the_heading_of_a_label(tmp_path, capsys):
    rng = np.random.default_rng(1)
    lines = []
    for number in range(120):
        words = [f"word{word}" for word in rng.integers(40, size=12)] + ["solution"] * (number % 3 == 0)
        lines.append(json.dumps({"id": str(number), "text": " ".join(words), "labels": [f"group {number % 3}"]}))
    (tmp_path / "docs.jsonl").write_text("\n".join(lines))
    for method, options in (("dual", {}), ("bernoulli-nb", {"headings_as_features": True})):
        data = tmp_path / f"{method}.h5"
        hpcml.convert("jsonl", tmp_path / "docs.jsonl", data, **options)
        hpcml.train(method, data, tmp_path / method, log=Log(0))
        said = [line for line in capsys.readouterr().err.splitlines() if SAID in line]
        assert len(said) == 1 and "'solution'" in said[0] and "'group 0'" in said[0]
