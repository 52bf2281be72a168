"""BioASQ's articles, answers and measures are the same bits on any number of ranks."""

import json

import numpy as np
import pytest
from support import make
from support.converted import convert_on, converted_alike

from hpcml import mpi
from hpcml.conversion import jsonl
from hpcml.data.dataset import DataFile
from hpcml.errors import DataError
from hpcml.evaluation.bioasq import evaluate_bioasq
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.prediction.predict import predict

pytestmark = pytest.mark.mpi
QUIET = Log(1)


def written(comm, path, text):
    with mpi.agreed(comm, "making files"):
        if comm.rank == 0:
            path.write_text(text)
    return path


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_articles(comm, mpi_tmp_path, monkeypatch, limit):
    monkeypatch.setattr(jsonl, "WHOLE_BYTES", limit)
    articles = [{"pmid": k, "title": f"word{k % 5} other{k % 3}", "meshMajor": [f"H{k % 4}", "H9"]} for k in range(23)]
    text = '{"articles":[\n' + ",\n".join(map(json.dumps, articles)) + "]}\n"
    source = written(comm, mpi_tmp_path / "in.json", text)
    terms = written(comm, mpi_tmp_path / "terms", "H0=D1\nH9=D0\n")
    converted_alike(comm, "bioasq", [source], mpi_tmp_path, descriptors=terms)
    written(comm, source, text[: text.rindex(",\n")])
    with pytest.raises(DataError, match=r"ends within its list|not JSON"):
        convert_on(comm, "bioasq", [source], mpi_tmp_path / "cut.h5", descriptors=terms)


@pytest.mark.parametrize("n_rows", [1, 3, 60])
def test_measures_and_answers(comm, mpi_tmp_path, n_rows):
    names = [f"D{k}" for k in range(9)]
    with mpi.agreed(comm, "making files"):
        if comm.rank == 0:
            rng = np.random.default_rng(n_rows)
            Y = rng.random((n_rows, 9)) < 0.3
            X = rng.standard_normal((n_rows, 5))
            ids = [str(10 + k) for k in range(n_rows)]
            make.dataset(mpi_tmp_path / "data.h5", X, Y.astype(float), label_names=names, row_ids=ids)
            make.model(mpi_tmp_path / "model.h5", rng.standard_normal((9, 5)), label_names=names)
            lines = (f"{name}\t{name}\tA0{1 + k % 3}.{100 + k // 3}\n" for k, name in enumerate(names[1:]))
            (mpi_tmp_path / "terms").write_text("".join(lines))
    model = Model(mpi_tmp_path / "model.h5")
    with DataFile(mpi_tmp_path / "data.h5") as data:
        found = evaluate_bioasq(comm, model, data, "all", mpi_tmp_path / "terms", QUIET)
        alone = evaluate_bioasq(mpi.self_comm(), model, data, "all", mpi_tmp_path / "terms", QUIET)
        assert found == alone
        predict(comm, model, data, "all", mpi_tmp_path / "all.json", False, QUIET)
        if comm.rank == 0:
            predict(mpi.self_comm(), model, data, "all", mpi_tmp_path / "one.json", False, QUIET)
            assert (mpi_tmp_path / "all.json").read_bytes() == (mpi_tmp_path / "one.json").read_bytes()
            assert [each["pmid"] for each in json.loads((mpi_tmp_path / "all.json").read_text())["documents"]] == [
                *range(10, 10 + n_rows)
            ]
