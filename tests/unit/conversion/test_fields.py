"""Documents whose fields are told apart: names, values and `--like`, against the definition; and what is refused."""

import re

import h5py
import numpy as np
import pytest
from anndata.io import read_elem
from support.converted import converted, made
from support.edits import attributes, edit
from support.oracles_text import slow_rows

from hpcml import mpi
from hpcml.conversion.vocabulary import PLAIN, Field, as_texts, parse_fields
from hpcml.data.dataset import DataFile
from hpcml.data.info import format_info, info
from hpcml.errors import ConfigError, DataError
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


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("min_df", [1, 2])
def test_rows_are_as_defined(tmp_path, pairs, binary, min_df):
    report, path = make(tmp_path, DOCUMENTS, pairs=pairs, binary=binary, min_df=min_df, fields=FIELDS, whole_fields=("journal",))
    names, rows = slow_rows(DOCUMENTS, parse_fields(FIELDS, WHOLE), pairs, (), min_df, binary)
    with h5py.File(path, locking=False) as file:
        found, X = list(file["feature_names"].asstr()[:]), read_elem(file["X"]).toarray()
        assert file["text"].attrs["fields"] == "title=T,text=A,journal=J,keys=keys"
        assert file["text"].attrs["whole_fields"] == "journal"
    assert (sorted(found), report.features) == (names, len(names))
    np.testing.assert_allclose(X, rows[:, [names.index(name) for name in found]], rtol=3e-7, atol=0)


@pytest.mark.parametrize("pairs", [False, True])
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


def test_without_fields_nothing_changes(tmp_path):
    _, path = make(tmp_path, DOCUMENTS)
    with h5py.File(path, locking=False) as file:
        assert set(file["text"].attrs) == {"weighting", "pairs", "min_df", "n_documents"}
        assert "quake" in file["feature_names"].asstr()[:]
    assert parse_fields((), ()) == PLAIN


def test_what_names_fields():
    given = ("title=T", "text", "a b=x.y")
    fields = parse_fields(given, ("text",))
    assert fields == (Field("title", "T"), Field("text", "text", True), Field("a b", "x.y"))
    assert as_texts(fields) == ("title=T,text=text,a b=x.y", "text")
    quoted = parse_fields(split_record('" a, ""b""=T", c=U', strip=True), (' a, "b"',))
    assert quoted == (Field(' a, "b"', "T", True), Field("c", "U"))
    assert parse_fields(*(split_record(text, strip=True) for text in as_texts(quoted))) == quoted
    assert parse_fields(*map(split_record, as_texts(fields))) == fields


@pytest.mark.parametrize(
    ("fields", "whole", "said"),
    [
        (["title", "", "text"], [], "a name is empty"),
        ([""], [], "a name is empty"),
        (["title="], [], "a name is empty"),
        (["labels"], [], "labels is no field"),
        (["a b"], [], "a tag must be one word without spaces"),
        (["a=x=y"], [], "a tag must be one word without spaces"),
        (["a=b\u2003c"], [], "a tag must be one word without spaces"),
        (["title", "text=title"], [], "the tag 'title' stands there twice"),
        (["title=A", "title=B"], [], "the field 'title' stands there twice"),
        (["x" * 20_000], [], "more than 16,384 characters"),
        (["title"], ["titel"], "--whole-fields titel: not among --fields; did you mean 'title'?"),
        ([], ["journal"], "--whole-fields journal: not among --fields"),
    ],
)
def test_fields_that_cannot_be_told_apart(tmp_path, fields, whole, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        make(tmp_path, DOCUMENTS, fields=fields, whole_fields=whole)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"journal": 3}, "line 5: journal is a number, but expected a string or a list of strings"),
        ({"keys": ["a", None]}, "line 5: a value of keys is null, but expected a string"),
        ({"journal": "a\0b"}, "line 5: journal 'a\\x00b' holds a character that cannot be stored"),
        ({"labels": ["x"]}, "line 5: none of title, text, journal, keys; expected at least one of them"),
    ],
)
def test_documents_of_another_kind(tmp_path, document, said):
    with pytest.raises(DataError, match=re.escape(said)):
        make(tmp_path, [*DOCUMENTS, document], fields=FIELDS, whole_fields=("journal",))


def test_fields_of_no_document_and_of_no_text(tmp_path):
    with pytest.raises(DataError, match=r"--fields jurnal: no document has a value of it; did you mean .journal.\?"):
        make(tmp_path, DOCUMENTS, fields=("text", "jurnal"))
    _, path = make(tmp_path, DOCUMENTS, "like")
    with pytest.raises(ConfigError, match="--fields text: has no effect with --like"):
        make(tmp_path, DOCUMENTS, fields=("text",), like=path)
    with pytest.raises(ConfigError, match="--fields journal: docstrings have the fields title and text"):
        converted("docstrings", [], tmp_path / "x.h5", fields=("text", "journal"))
    with pytest.raises(ConfigError, match="--fields journal: docstrings have the fields title and text"):
        make(tmp_path, [{"journal": "a b", "labels": ["x"]}], "journal", fields=("journal",))
        converted("docstrings", [], tmp_path / "x.h5", like=tmp_path / "journal.h5")


def test_new_documents_that_all_lack_a_field(tmp_path, capsys):
    _, path = make(tmp_path, DOCUMENTS, fields=("title", "text"))
    new = tmp_path / "new.jsonl"
    new.write_text('{"title": "wheat", "Text": "corn"}\n{"title": "corn"}\n')
    converted("jsonl", new, tmp_path / "new.h5", told=True, like=path)
    said = capsys.readouterr().err
    assert said.count("new.jsonl: field text of --like") == 1
    assert "no document has a value of it; did you mean 'Text'?" in said
    new.write_text('{"title": "wheat"}\n{"title": "corn", "text": "ship"}\n')
    converted("jsonl", new, tmp_path / "new.h5", told=True, like=path)
    assert "no document" not in capsys.readouterr().err


def test_a_damaged_list_of_fields(tmp_path):
    for damage in ("title=T,text=A,journal=J", "title=T,,", "x=y", 3):
        _, path = make(tmp_path, DOCUMENTS, fields=FIELDS)
        edit(path, attributes({"fields": damage}, "text"))
        with pytest.raises(DataError, match="damaged settings of text"):
            make(tmp_path, DOCUMENTS, "again", like=path)
