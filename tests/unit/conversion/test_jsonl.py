"""JSON lines, BioASQ JSON and docstrings: valid documents, refusals and splits."""

import csv
import gzip
import json

import h5py
import pytest
import support.training as training
from support.converted import check_refusal, converted, label_sets, made, strings

from hpcml import mpi
from hpcml.conversion import jsonl
from hpcml.conversion.docstrings import find_modules, parse_docstrings
from hpcml.data.dataset import DataFile
from hpcml.errors import DataError
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.prediction.predict import predict

BAD = [
    '{"text": "a",}',
    '["text"]',
    "17",
    "null",
    '{"id": "7", "labels": ["x"]}',
    '{"text": 3}',
    '{"title": true}',
    '{"text": "a", "labels": "x"}',
    '{"text": "a", "labels": [null]}',
    '{"text": "a", "labels": ["x", 3]}',
    '{"text": "a", "labels": [""]}',
    '{"text": "a", "labels": ["x\\u0000y"]}',
    '{"text": "a", "id": "\\ud800"}',
    '{"text": "a", "id": [1]}',
    '{"text": "a", "split": 1}',
    '{"text": "a", "split": "all"}',
    '{"text": "a", "split": "a/b"}',
    '{"text": ' + "[" * 100_000,
    '{"text": "a", "id": ' + "9" * 5000 + "}",
]


def make(folder, content, **options):
    return made(folder, "jsonl", content, "in", **options)


@pytest.mark.parametrize("line", BAD)
def test_bad_line_is_refused_with_its_number(tmp_path, line):
    good = '{"text": "fine", "labels": ["x"]}\n'
    check_refusal(lambda: make(tmp_path, f"{good}\n{good}{line}\n"), "in.jsonl: line 4: ")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_ids_labels_and_splits(tmp_path):
    lines = [
        {"id": "first", "text": "a b", "labels": ["y", "x", "y"], "split": "train"},
        {"text": "b c", "split": "dev"},
        {"title": "a", "labels": ["Ä"], "split": "train"},
        {"id": "", "text": "c", "labels": ["x"]},
    ]
    report, output = make(tmp_path, "\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    assert strings(output, "row_ids") == ["first", "3", "5", "7"]  # rows without an id are named by line
    assert strings(output, "label_names") == ["x", "y", "Ä"]
    assert label_sets(output) == [["x", "y"], [], ["Ä"], ["x"]]
    with h5py.File(output) as file:
        assert {name: rows[:].tolist() for name, rows in file["splits"].items()} == {"dev": [1], "train": [0, 2]}
        assert file["text"].attrs["n_documents"] == 2
    assert report.splits == {"dev": 1, "train": 2}
    assert "split dev: 1 row" in str(report)


@pytest.mark.parametrize("before", ["", '{"text": "a"}\n', "\n"])
def test_test_share_is_refused_at_the_first_split_of_the_input(tmp_path, before):
    content = before + '{"text": "a", "split": "dev"}\n{"text": "b", "split": "train"}\n{'
    check_refusal(lambda: make(tmp_path, content, test_share=0.5), "--test-share 0.5", "dev", "--ignore-splits")


def test_splits_of_the_input_can_be_ignored(tmp_path):
    documents = [{"id": f"{n}", "text": f"a{n} b", "labels": ["x"]} for n in range(20)]
    with_splits = [document | {"split": "a/b" if n else "train"} for n, document in enumerate(documents)]
    _, ignored = make(tmp_path, "\n".join(map(json.dumps, with_splits)), ignore_splits=True, test_share=0.5)
    found = ignored.read_bytes()
    _, expected = make(tmp_path, "\n".join(map(json.dumps, documents)), test_share=0.5)
    assert found == expected.read_bytes()
    _, empty = make(tmp_path, "\n".join(json.dumps(document | {"split": ""}) for document in documents), test_share=0.5)
    assert empty.read_bytes() == found
    check_refusal(lambda: make(tmp_path, '{"text": "a", "split": ""}', ignore_splits=True), "--ignore-splits")


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


def make_bioasq(folder, content, source="bioasq", name="out.h5", **options):
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
    return parts(make_bioasq(tmp_path, "\n".join(lines), "jsonl", "lines.h5"))


@pytest.mark.parametrize("layout", [*LAYOUTS, *WHOLE, "gz"])
@pytest.mark.parametrize("limit", [0, 1 << 25])
def test_layout_does_not_matter(tmp_path, expected, layout, limit, monkeypatch):
    monkeypatch.setattr(jsonl, "WHOLE_BYTES", limit)
    content = gzip.compress(LINES.encode()) if layout == "gz" else (LAYOUTS | WHOLE)[layout]
    if not limit and layout in WHOLE:
        with pytest.raises(DataError, match="line 1"):
            make_bioasq(tmp_path, content)
    else:
        assert parts(make_bioasq(tmp_path, content)) == expected


@pytest.mark.parametrize("limit", [0])
def test_test_documents_and_identifiers(tmp_path, limit, monkeypatch):
    monkeypatch.setattr(jsonl, "WHOLE_BYTES", limit)
    (tmp_path / "terms").write_text("Fruit=D7\nTrees=D1\n")
    train = make_bioasq(tmp_path, LINES, descriptors=tmp_path / "terms")
    assert parts(train)[2:4] == (["D7", "Trees, Old"], ["Fruit", ""])
    documents = {"documents": [{"pmid": 5, "title": "apple", "abstract": "plum pear", "year": 2020}]}
    test = make_bioasq(tmp_path, json.dumps(documents), name="test.h5", like=train)
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
    monkeypatch.setattr(jsonl, "WHOLE_BYTES", limit)
    with pytest.raises(DataError, match=rf"in\.bioasq: {location}"):
        make_bioasq(tmp_path, change(LINES))
    assert not (tmp_path / "out.h5").exists()


def test_predictions_in_the_format_of_bioasq(tmp_path):
    data = make_bioasq(tmp_path, LINES, test_share=0.3)
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


CODE = b'''# -*- coding: latin-1 -*-
"""A module about \xe4 cats and dogs."""
import nothing_that_exists

class Cat:
    """One cat with four warm feet."""

    @property
    def feet(self):
        """How many feet there are now."""

    @feet.setter
    def feet(self, n):
        """Set the number of feet anew."""

    def short(self):
        """Too short."""

if True:
    try:
        async def run():
            """Run as long as it takes."""
            def inner():
                """An inner function with words enough."""
    except ImportError:
        def run():
            """Run, but only as a fallback."""
x = "\\d"
'''


def test_every_docstring_has_a_name_of_its_own():
    found = list(parse_docstrings("pets.cats", CODE))
    assert [(document.name, document.text) for document in found] == [
        ("pets.cats", "A module about ä cats and dogs."),
        ("pets.cats.Cat", "One cat with four warm feet."),
        ("pets.cats.Cat.feet", "How many feet there are now."),
        ("pets.cats.Cat.feet#2", "Set the number of feet anew."),
        ("pets.cats.run", "Run as long as it takes."),
        ("pets.cats.run.inner", "An inner function with words enough."),
        ("pets.cats.run#2", "Run, but only as a fallback."),
    ]
    assert {document.module for document in found} == {"pets.cats"}


def test_what_cannot_be_parsed_has_none(recwarn):
    for code in (b"print 'old'", b"\0", b"# coding: none-such\n", b"\xff", b"(" * 1000):
        assert list(parse_docstrings("m", code)) == []
    assert list(parse_docstrings("m", b"x = 1 is 1\n")) == []
    assert not recwarn.list


def test_installed_modules_are_found_once_and_without_tests():
    modules = [source.module for source in find_modules()]
    assert modules == sorted(set(modules))
    assert {"ast", "email.message", "numpy", "scipy.sparse", "sklearn.linear_model", "h5py", "numba.core.types"} <= set(modules)
    assert not any({"tests", "test", "site-packages"} & set(module.split(".")) for module in modules)
