"""Column names on the command line are records of CSV; a Python sequence holds the names as they are."""

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
        ('"say ""so""",5" disk', ['say "so"', '5" disk']),
        ('""', [""]),
        ("", []),
    ],
)
def test_split_names(text, names):
    assert split_record(text) == names


@pytest.mark.parametrize("name", ["a", "", " a", "a ", "a,b", '"', 'a "b", c', '5" disk', '""', "\t", "ä,ö"])
def test_quoted_name_is_read_back(name):
    assert split_record(quoted_name(name)) == [name]
    assert split_record(f"x,{quoted_name(name)},y", strip=True) == ["x", name, "y"]
    assert next(csv.reader([quoted_name(name)], strict=True)) == [name] or name.endswith("disk")


def test_command_line_splits_names():
    options = options_on_command_line("""--labels '"a, b",c' d --text x,y --id '"i, j"' --group 'g,h' --features=f,"k" """)
    assert (options.labels, options.text, options.id, options.group) == (("a, b", "c", "d"), ("x", "y"), "i, j", "g,h")
    assert options.features == ("f", "k")
    options = options_on_command_line("""--fields 'title=T, "a, b=U"' --whole-fields '"a, b"' --split-column s""")
    assert (options.fields, options.whole_fields, options.split_column) == (("title=T", "a, b=U"), ("a, b",), "s")


TABLE = 'x,"a, b"," label",say ""so\n5,u,p,s\n1,v,q,t\n'


@pytest.mark.parametrize(("text", "labels"), [('"a, b",say ""so', ["s", "u"]), ('" label", "a, b"', ["p", "u"])])
def test_names_columns_with_commas_and_blanks(tmp_path, text, labels):
    (tmp_path / "in.csv").write_text(TABLE)
    for names in (text, split_record(text)):  # a string is a record; a sequence holds names
        hpcml.convert("csv", tmp_path / "in.csv", tmp_path / "out.h5", labels=names, features=["x"], force=True)
        assert label_sets(tmp_path / "out.h5")[0] == labels
    with pytest.raises(ConfigError, match="--labels a, label: "):
        hpcml.convert("csv", tmp_path / "in.csv", tmp_path / "out.h5", labels=["a, label"], features=["x"], force=True)


@pytest.mark.parametrize(("name", "nearest"), [("a,b", "a, b"), ("LABEL", " label")])
def test_nearest_name_can_be_pasted(tmp_path, name, nearest):
    (tmp_path / "in.csv").write_text(TABLE)
    with pytest.raises(ConfigError) as caught:
        hpcml.convert("csv", tmp_path / "in.csv", tmp_path / "out.h5", labels=[name], features=["x"])
    option, text = shlex.split(str(caught.value).rpartition("Write ")[2])
    assert option == "--labels" and options_on_command_line(f"--labels {shlex.quote(text)}").labels == (nearest,)


def test_prefers_the_column_with_the_same_blanks(tmp_path):
    (tmp_path / "in.csv").write_text("x,l, l,m\n5,a,b,c\n1,d,e,f\n")
    for names, labels in {" l": ["b"], "l": ["a"], " m": ["c"], "l, l": ["a", "b"]}.items():
        hpcml.convert("csv", tmp_path / "in.csv", tmp_path / "out.h5", labels=names, features="x", force=True)
        assert label_sets(tmp_path / "out.h5")[0] == labels
