"""Names of columns on the command line are records of CSV; in Python a sequence holds the names as they are."""

import csv
import shlex

import pytest
from support.converted import label_sets

import hpcml
from hpcml.cli import app as cli
from hpcml.errors import ConfigError
from hpcml.options import quoted_name, split_record


def options_on_command_line(text):
    return cli.parse(shlex.split(f"convert csv in.csv -o out.h5 {text}")).options


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ["a", "b"]),
        (" a, b ", [" a", " b "]),
        ("a,,b, ", ["a", "b"]),
        ('"a, b",c', ["a, b", "c"]),
        ('c, "a, b" , d', ["c", "a, b", " d"]),
        ('"say ""so""",5" disk', ['say "so"', '5" disk']),
        ('"a"b,"', ['"a"b', '"']),
        ('""', [""]),
        ("", []),
    ],
)
def test_split_names(text, names):
    assert split_record(text) == names


@pytest.mark.parametrize("name", ["a", "", " a", "a ", "a,b", '"', 'a "b", c', '5" disk', '""', "\t", "ä,ö"])
def test_a_quoted_name_is_read_again(name):
    assert split_record(quoted_name(name)) == [name]
    assert split_record(f"x,{quoted_name(name)},y", strip=True) == ["x", name, "y"]
    assert next(csv.reader([quoted_name(name)], strict=True)) == [name] or name.endswith("disk")


def test_the_command_line_splits_names():
    found = options_on_command_line("""--labels '"a, b",c' d --text x,y --id '"i, j"' --group 'g,h' --features=f,"k" """)
    assert (found.labels, found.text, found.id, found.group) == (("a, b", "c", "d"), ("x", "y"), "i, j", "g,h")
    assert found.features == ("f", "k")
    found = options_on_command_line("""--fields 'title=T, "a, b=U"' --whole-fields '"a, b"' --split-column s""")
    assert (found.fields, found.whole_fields, found.split_column) == (("title=T", "a, b=U"), ("a, b",), "s")


TABLE = 'x,"a, b"," label",say ""so\n5,u,p,s\n1,v,q,t\n'
CASES = {
    '"a, b",say ""so': ["s", "u"],
    " label": ["p"],
    '" label", "a, b"': ["p", "u"],
}


@pytest.mark.parametrize("text", CASES)
def test_columns_with_commas_and_blanks_can_be_named(tmp_path, text):
    (tmp_path / "in.csv").write_text(TABLE)
    names = split_record(text)
    for given in (text, names):  # one text is a record; a sequence holds names
        hpcml.convert("csv", tmp_path / "in.csv", tmp_path / "out.h5", labels=given, features=["x"], force=True)
        assert label_sets(tmp_path / "out.h5")[0] == CASES[text]
    with pytest.raises(ConfigError, match="--labels a, label: no such column"):
        hpcml.convert("csv", tmp_path / "in.csv", tmp_path / "out.h5", labels=["a, label"], features=["x"], force=True)


@pytest.mark.parametrize(("given", "near"), [("label", " label"), ("a", "a, b"), ("a,b", "a, b"), ("LABEL", " label")])
def test_the_nearest_name_can_be_pasted(tmp_path, given, near):
    (tmp_path / "in.csv").write_text(TABLE)
    with pytest.raises(ConfigError) as caught:
        hpcml.convert("csv", tmp_path / "in.csv", tmp_path / "out.h5", labels=[given], features=["x"])
    option, text = shlex.split(str(caught.value).rpartition("Write ")[2])
    assert option == "--labels" and options_on_command_line(f"--labels {shlex.quote(text)}").labels == (near,)


def test_a_name_with_blanks_is_first_that_of_a_column_with_them(tmp_path):
    (tmp_path / "in.csv").write_text("x,l, l,m\n5,a,b,c\n1,d,e,f\n")
    for names, labels in {" l": ["b"], "l": ["a"], " m": ["c"], "l, l": ["a", "b"]}.items():
        hpcml.convert("csv", tmp_path / "in.csv", tmp_path / "out.h5", labels=names, features="x", force=True)
        assert label_sets(tmp_path / "out.h5")[0] == labels
