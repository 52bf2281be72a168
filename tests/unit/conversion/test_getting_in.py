"""What people bring, and the sentence that names the option to use."""

import json

import pytest
from support.compressed import archive
from support.converted import made

from hpcml.errors import HpcmlError

TABLE = "text,labels,split\nships and ports,sea; trade,train\nfields of corn,farm,train\n"


REFUSED = {
    "semicolons": ("csv", TABLE.replace(",", ";"), {"text": ("text",)}, "one column, 'text;labels;split'; .*use --delimiter ';'"),
    "tabs": ("csv", TABLE.replace(",", "\t"), {"text": ("text",)}, "use convert tsv"),
    "commas": ("tsv", TABLE, {"text": ("text",)}, "use convert csv"),
    "a workbook": (
        "csv",
        archive(("[Content_Types].xml", b"x"), ("xl/workbook.xml", b"x")),
        {},
        "Excel workbook; save .* as CSV in UTF-8",
    ),
    "no labels": ("csv", TABLE, {"text": ("text",)}, "no label in any row; .*name the columns of labels with --labels"),
    "label": ("jsonl", json.dumps({"text": "a ship", "label": "sea"}), {}, "line 1: it has a key label, but labels stand under"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_names_what_to_do(tmp_path, kind):
    source, content, options, sentence = REFUSED[kind]
    with pytest.raises(HpcmlError, match=sentence):
        made(tmp_path, source, content, told=True, **options)
    assert not (tmp_path / "data.h5").exists()


@pytest.mark.parametrize(
    ("options", "n_warnings"),
    [
        ({}, 2),
        ({"split_column": "split"}, 1),
        ({"label_separator": ";"}, 1),
        ({"label_separator": ";", "split_column": "split"}, 0),
    ],
)
def test_a_column_of_splits_and_a_separator_that_no_option_names_are_told(tmp_path, capsys, options, n_warnings):
    made(tmp_path, "csv", TABLE, told=True, text=("text",), labels=("labels",), **options)
    said = capsys.readouterr().err
    assert said.count("warning: ") == n_warnings
    assert ("--split-column split takes it" in said) == ("split_column" not in options)
    assert ("such as 'sea; trade' may be several" in said) == ("label_separator" not in options)


def test_rows_without_any_feature_are_told(tmp_path, capsys):
    made(tmp_path, "csv", "a,b,l\n0,0,x\n0,0,y\n", labels=("l",), told=True)
    assert "warning: " in (said := capsys.readouterr().err) and "no row has any feature" in said
