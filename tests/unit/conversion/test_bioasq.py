"""BioASQ JSON: the same dataset as from JSON lines for any layout of the file, and predictions in its format."""

import csv
import gzip
import json

import pytest
import support.training as training
from support.converted import converted

from hpcml import mpi
from hpcml.conversion import bioasq
from hpcml.data.dataset import DataFile
from hpcml.errors import DataError
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.prediction.predict import predict

SELF, QUIET = mpi.self_comm(), Log(1)
WORDS = ["apple", "pear", "plum", "fig", "naïve", "ünder", "cherry"]
ARTICLES = [
    {
        "journal": "J", "year": "2001", "pmid": str(100 + k), "title": f"{WORDS[k % 7]} [in] trees]}}",
        "abstractText": f"the {WORDS[k % 3]}, {WORDS[k % 5]} {{x}}", "meshMajor": ["Fruit", "Trees, Old"][: k % 3],
    }
    for k in range(30)
]  # fmt: skip
LINES = '{"articles":[\n' + ",\n".join(map(json.dumps, ARTICLES)) + "]}\n"
LAYOUTS = {
    "lines": LINES,
    "first": LINES.replace("[\n", "[", 1),
    "apart": LINES.replace("]}\n", "\n]\n}", 1) if LINES.count("]}\n") == 1 else LINES[:-3] + "\n]}",
    "windows": LINES.replace("\n", "\r\n"),
}
WHOLE = {"one": json.dumps({"articles": ARTICLES}), "pretty": json.dumps({"a": 1, "articles": ARTICLES}, indent=2)}


def made(folder, content, source="bioasq", name="out.h5", **options):
    path = folder / f"in.{source}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    converted(source, path, folder / name, **options)
    return folder / name


def parts(path):
    with DataFile(path) as d:
        X = [d.map(f"X/{part}").tolist() for part in ("indptr", "indices", "data")]
        Y = [d.map(f"Y/{part}").tolist() for part in ("indptr", "indices")]
        return X, Y, d.label_names(), d.label_titles(), d.strings("row_ids"), d.vocabulary


@pytest.fixture
def expected(tmp_path):
    keys = {"pmid": "id", "abstractText": "text", "meshMajor": "labels"}
    lines = [json.dumps({keys.get(key, key): value for key, value in each.items()}) for each in ARTICLES]
    return parts(made(tmp_path, "\n".join(lines), "jsonl", "lines.h5"))


@pytest.mark.parametrize("layout", [*LAYOUTS, *WHOLE, "gz"])
@pytest.mark.parametrize("limit", [0, 1 << 25])
def test_layout_does_not_matter(tmp_path, expected, layout, limit, monkeypatch):
    monkeypatch.setattr(bioasq, "WHOLE_BYTES", limit)
    content = gzip.compress(LINES.encode()) if layout == "gz" else (LAYOUTS | WHOLE)[layout]
    if not limit and layout in WHOLE:
        with pytest.raises(DataError, match="line 1"):
            made(tmp_path, content)
    else:
        assert parts(made(tmp_path, content)) == expected


@pytest.mark.parametrize("limit", [0])
def test_test_documents_and_identifiers(tmp_path, limit, monkeypatch):
    monkeypatch.setattr(bioasq, "WHOLE_BYTES", limit)
    (tmp_path / "terms").write_text("Fruit=D7\nTrees=D1\n")
    train = made(tmp_path, LINES, descriptors=tmp_path / "terms")
    assert parts(train)[2:4] == (["D7", "Trees, Old"], ["Fruit", ""])
    documents = {"documents": [{"pmid": 5, "title": "apple", "abstract": "plum pear", "year": 2020}]}
    test = made(tmp_path, json.dumps(documents), name="test.h5", like=train)
    assert parts(test)[2:5] == (["D7", "Trees, Old"], ["Fruit", ""], ["5"])
    with DataFile(test) as d:
        assert d.nnz == 3


@pytest.mark.parametrize("limit", [0, 1 << 25])
@pytest.mark.parametrize(
    ("change", "location"),
    [
        (lambda t: t.replace('"articles"', '"papers"'), ""),
        (lambda t: t.replace('"pmid": "103"', '"pmid": null'), "(article 4|line 5): "),
        (lambda t: t.replace('"meshMajor": ["Fruit"]', '"meshMajor": 3', 1), "(article 2|line 3): "),
        (lambda t: t[: t.index(',\n{"journal"', 500)] + ",\n7]}", r"(article|line) \d+: "),
        (lambda t: t[: t.index("\n", 900)], ""),
    ],
)
def test_bad_input_is_refused_with_its_line(tmp_path, limit, change, location, monkeypatch):
    monkeypatch.setattr(bioasq, "WHOLE_BYTES", limit)
    with pytest.raises(DataError, match=rf"in\.bioasq: {location}"):
        made(tmp_path, change(LINES))
    assert not (tmp_path / "out.h5").exists()


def test_predictions_in_the_format_of_bioasq(tmp_path):
    data = made(tmp_path, LINES, test_share=0.3)
    training.train("probe", None, data, tmp_path / "run", {}, log=QUIET)
    model, out = Model(tmp_path / "run" / "model.h5"), tmp_path / "out.json"
    with DataFile(data) as rows:
        predict(SELF, model, rows, "all", out, False, QUIET)
        documents = json.loads(out.read_text())["documents"]
        predict(SELF, model, rows, "all", tmp_path / "out.csv", False, QUIET)
        assert [d["pmid"] for d in documents] == list(range(100, 130))
        lines = [line[:2] for line in csv.reader((tmp_path / "out.csv").open())][1:]
        assert [[str(d["pmid"]), label] for d in documents for label in d["labels"]] == lines
        predict(SELF, model, rows, "test", out, True, QUIET, top=1)
        found = json.loads(out.read_text())["documents"]
        assert len(found) == rows.split("test").size
        assert {len(d["labels"]) for d in found} == {1}
