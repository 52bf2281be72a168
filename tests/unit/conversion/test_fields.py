"""Documents with separate fields: names, values and `--like` against the definition; refusals."""

import h5py
import numpy as np
import pytest
from anndata.io import read_elem
from support.converted import check_refusal, converted, made
from support.edits import attributes, edit
from support.oracles_text import slow_rows

from hpcml import mpi
from hpcml.conversion.vocabulary import Field, as_texts, parse_fields
from hpcml.data.dataset import DataFile
from hpcml.data.info import format_info, info
from hpcml.options import split_record

SELF = mpi.self_comm()
DOCUMENTS = [
    {
        "title": "Quake in Haiti",
        "text": "the quake, the quake. Haiti",
        "journal": "Disasters",
        "keys": ["New York", "quake"],
        "labels": [],
    },
    {"title": "New York", "text": "a quake", "journal": "New  York ", "keys": ["york city"], "labels": ["a"]},
    {"text": "york new york", "journal": ["Disasters", "T"], "keys": None, "labels": ["a", "b"]},
    {"title": "", "text": "no field but this", "keys": [], "labels": []},
]
FIELDS = ("title=T", "text=A", "journal=J", "keys")
WHOLE = {"journal"}


def make(folder, *documents_and_name, **options):
    return made(folder, "jsonl", *documents_and_name, **options)


@pytest.mark.parametrize(("pairs", "binary", "min_df"), [(False, False, 1), (True, False, 2), (True, True, 1)])
def test_rows_are_as_defined(tmp_path, pairs, binary, min_df):
    report, path = make(tmp_path, DOCUMENTS, pairs=pairs, binary=binary, min_df=min_df, fields=FIELDS, whole_fields=("journal",))
    names, rows = slow_rows(DOCUMENTS, parse_fields(FIELDS, WHOLE), pairs, (), min_df, binary)
    with h5py.File(path, locking=False) as file:
        found, X = list(file["feature_names"].asstr()[:]), read_elem(file["X"]).toarray()
        assert file["text"].attrs["fields"] == "title=T,text=A,journal=J,keys=keys"
        assert file["text"].attrs["whole_fields"] == "journal"
    assert (sorted(found), report.features) == (names, len(names))
    np.testing.assert_allclose(X, rows[:, [names.index(name) for name in found]], rtol=3e-7, atol=0)


@pytest.mark.parametrize("pairs", [True])
def test_new_documents_have_the_same_fields(tmp_path, pairs):
    (tmp_path / "stop").write_text("the\na\n")
    options = {"fields": FIELDS, "whole_fields": ("journal",), "pairs": pairs, "stop_words": tmp_path / "stop"}
    _, path = make(tmp_path, DOCUMENTS, **options)
    _, again = make(tmp_path, DOCUMENTS, "again", like=path)
    with DataFile(path) as one, DataFile(again) as two:
        assert one.strings("feature_names") == two.strings("feature_names")
        assert not {"the A", "a A"} & set(one.strings("feature_names"))
        for name in ("X/indptr", "X/indices", "X/data"):
            assert np.array_equal(one.map(name), two.map(name))
    report, few = make(tmp_path, [{"title": "Unheard york", "journal": "York"}, {"journal": "Disasters"}], "few", like=path)
    assert report.dropped_values == 2
    with DataFile(few) as dataset:
        names = dataset.strings("feature_names")
        assert [names[j] for j in dataset.map("X/indices")] == ["york T", "Disasters J"]
    assert "fields title=T,text=A,journal=J,keys=keys" in format_info(info(SELF, path, [1]))


def test_fields_are_parsed():
    given = ("title=T", "text", "a b=x.y")
    fields = parse_fields(given, ("text",))
    assert fields == (Field("title", "T"), Field("text", "text", True), Field("a b", "x.y"))
    assert as_texts(fields) == ("title=T,text=text,a b=x.y", "text")
    quoted = parse_fields(split_record('" a, ""b""=T", c=U', strip=True), (' a, "b"',))
    assert quoted == (Field(' a, "b"', "T", True), Field("c", "U"))
    assert parse_fields(*(split_record(text, strip=True) for text in as_texts(quoted))) == quoted
    assert parse_fields(*map(split_record, as_texts(fields))) == fields


@pytest.mark.parametrize(
    "fields",
    [
        ["title", "", "text"],
        [""],
        ["title="],
        ["labels"],
        ["a b"],
        ["a=x=y"],
        ["a=b\u2003c"],
        ["title", "text=title"],
        ["title=A", "title=B"],
    ],
)
def test_ambiguous_fields_are_refused(tmp_path, fields):
    check_refusal(lambda: make(tmp_path, DOCUMENTS, fields=fields), "--fields")
    check_refusal(lambda: make(tmp_path, DOCUMENTS, fields=["title"], whole_fields=["titel"]), "--whole-fields titel", "'title'")


def test_fields_without_values_and_fields_of_other_sources_are_refused(tmp_path):
    check_refusal(lambda: make(tmp_path, DOCUMENTS, fields=("text", "jurnal")), "--fields jurnal", "journal")
    _, path = make(tmp_path, DOCUMENTS, "like")
    check_refusal(lambda: make(tmp_path, DOCUMENTS, fields=("text",), like=path), "--fields text", "--like")
    check_refusal(lambda: converted("docstrings", [], tmp_path / "x.h5", fields=("text", "journal")), "--fields journal")


def test_new_documents_without_a_field_cause_a_warning(tmp_path, capsys):
    _, path = make(tmp_path, DOCUMENTS, fields=("title", "text"))
    make(tmp_path, [{"title": "wheat", "Text": "corn"}, {"title": "corn"}], "new", like=path, told=True)
    assert "field text of --like" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["title=T,text=A,journal=J", "title=T,,", "x=y", 3])
def test_damaged_list_of_fields_is_refused(tmp_path, damage):
    _, path = make(tmp_path, DOCUMENTS, fields=FIELDS)
    edit(path, attributes({"fields": damage}, "text"))
    check_refusal(lambda: make(tmp_path, DOCUMENTS, "again", like=path), str(path))
