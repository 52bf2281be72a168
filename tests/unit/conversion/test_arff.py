"""ARFF of Weka, OpenML, MULAN and MEKA, against other readers and values derived by hand."""

import io

import arff as liac
import numpy as np
import pytest
from scipy.io import arff as of_scipy
from support.converted import check_refusal, converted, label_sets, matrix, strings

from hpcml.conversion.arff import parse_attribute, parse_row

HEAD = "@relation r\n@attribute a numeric\n@attribute l {x,y}\n@data\n"
RNG = np.random.default_rng(7)


def make(folder, content, xml=None, **options):
    (folder / "in.arff").write_text(content, encoding="utf-8")
    if xml is not None:
        (folder / "labels.xml").write_text(xml, encoding="utf-8")
        options["label_xml"] = folder / "labels.xml"
    converted("arff", folder / "in.arff", folder / "out.h5", **options)
    return folder / "out.h5"


@pytest.mark.parametrize(
    ("line", "name", "kind", "values"),
    [
        ("@attribute a numeric", "a", "NUMERIC", None),
        ("@ATTRIBUTE\ta\tReal % a comment", "a", "REAL", None),
        ("@attribute 'it\\'s % {1}' integer", "it's % {1}", "INTEGER", None),
        ('@attribute "say \\"x\\"" string', 'say "x"', "STRING", None),
        ("@attribute don't numeric", "don't", "NUMERIC", None),
        ("@attribute 'don't go' {'0', '1' }", "don't go", "NOMINAL", ["0", "1"]),
        ("@attribute 100%sure {0,1}%c", "100%sure", "NOMINAL", ["0", "1"]),
        ("@attribute when date", "when", "DATE", None),
        ("@attribute when DATE 'yyyy-MM-dd HH:mm:ss' % a comment", "when", "DATE", None),
        ("@attribute a{b, 'c d'\t,\"e,f\",50%,?} % {g}", "a", "NOMINAL", ["b", "c d", "e,f", "50%", "?"]),
        ("@attribute 'caf\\u00e9\\t\\\\' { a , } {1}", "café\t\\", "NOMINAL", ["a"]),
    ],
)
def test_attributes(line, name, kind, values):
    assert parse_attribute(line) == (name, kind, values)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("1,x,?", ["1", "x", None]),
        ("1\tx\t?", ["1", "x", None]),
        (" 1 , x ,\t? % a comment", ["1", "x", None]),
        ("1,,", ["1", None, None]),
        ("'it\\'s','?',50%%comment", ["it's", "?", "50%%comment"]),
        ("'a''b',1,2", None),
        ("o'brien,1,2", None),
        ("'open,1,2", None),
        ("1,{,2", None),
        ("dark green,1,2", None),
        ('"say \\"x\\"","a,b",\'\' %c', ['say "x"', "a,b", ""]),
        ("1,x,y,{1}", ["1", "x", "y"]),
        ("1 x y {1.0} % a comment", ["1", "x", "y"]),
        ("1,x,y,{5}", None),
        ("1,x", None),
        ("{}", [0, 0, 0]),
        ("{0 1, 2 'x y'} % {1 2}", ["1", 0, "x y"]),
        ("{2 ?,\t0\t1,}, {1}", ["1", 0, None]),
        ("{0 1} {2}", None),
        ("{0,1}", None),
        ("{0 1 1 2}", None),
        ("{0 1, 1}", None),
        ("{0 1,0 2}", None),
        ("{0 1,3 2}", None),
        ("{-1 1}", None),
        ("{0 1", None),
    ],
)
def test_rows(line, values):
    if values is None:
        with pytest.raises(ValueError):
            parse_row(line, 3)
    else:
        row = parse_row(line, 3)
        assert [row.get(number, 0) for number in range(3)] == values


TABLE = """% a comment
@relation 'it\\'s a test' % a comment
@attribute tab\tnumeric  % a comment
@attribute when date "yyyy-MM-dd HH:mm:ss"
@attribute 'a text' string
@attribute colour {'it\\'s',"c,d"} % a comment
@data % a comment
2.5,"2020-01-01 10:00:00",'corn, "wheat"','it\\'s'   % a comment
\t3\t?\t'wheat' \t"c,d"
% a comment
{0 5, 2 "corn \\"ship\\""}
{3 ?}, {1}
"""


def test_dates_are_no_features(tmp_path, capsys):
    text = TABLE.replace("'a text' string", "'a text' {'corn, \"wheat\"',wheat,'corn \"ship\"'}")
    found = make(tmp_path, text, labels=("colour",), told=True)
    assert "'when' (date)" in capsys.readouterr().err
    values = [[2.5, 1, 0, 0], [3, 0, 1, 0], [5, 0, 0, 1], [0, 1, 0, 0]]
    assert matrix(found).tolist() == values
    assert label_sets(found) == [["it's"], ["c,d"], ["it's"], []]
    found = make(tmp_path, TABLE, labels=("colour",), features=("tab",), id="when")
    assert strings(found, "row_ids") == ["2020-01-01 10:00:00", "2", "3", "4"]
    check_refusal(lambda: make(tmp_path, TABLE, labels=("colour",), features=("tab", "when")), "'when'")


def test_words_of_string_attributes(tmp_path):
    options = {"labels": ("colour",), "binary": True}
    found = make(tmp_path, TABLE, text=("a text",), **options)
    assert strings(found, "feature_names") == ["corn", "ship", "wheat"]
    assert matrix(found).tolist() == [[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 0, 0]]
    assert label_sets(found) == [["it's"], ["c,d"], ["it's"], []]
    apart = make(tmp_path, TABLE, fields=("a text=T", "when=W"), whole_fields=("when",), **options)
    assert strings(apart, "feature_names") == ["2020-01-01 10:00:00 W", "corn T", "ship T", "wheat T"]
    check_refusal(lambda: make(tmp_path, TABLE, labels=("colour",)), "'a text'")


def labelled(sparse, labels_first):
    X = np.where(RNG.random((40, 5)) < 0.5, RNG.standard_normal((40, 5)).round(3), 0)
    Y = (RNG.random((40, 3)) < 0.4).astype(int)
    labels = [f"@attribute {name} {{0,1}}" for name in ("'sea, side'", "TAG_2", "farm")]
    features = [f"@attribute f{number} numeric" for number in range(5)]
    names = [*labels, *features] if labels_first else [*features, *labels]
    rows = []
    for x, y in zip(X.tolist(), Y.tolist(), strict=True):
        values = [*y, *x] if labels_first else [*x, *y]
        pairs = ",".join(f"{number} {value}" for number, value in enumerate(values) if value)
        rows.append(f"{{{pairs}}}" if sparse else ",".join(map(str, values)))
    return "\n".join([*names, "@data", *rows]) + "\n"


def by_another_reader(text, sparse):
    if sparse:
        data = liac.loads(text, return_type=liac.LOD)
        names = [name for name, _ in data["attributes"]]
        return np.array([[float(row.get(number, 0)) for number in range(len(names))] for row in data["data"]]), names
    data, about = of_scipy.loadarff(io.StringIO(text))
    return np.array([[float(value) for value in row] for row in data.tolist()]), about.names()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("c", ["-C 3", "-C -3", "-c -3 -split-number 20"])
def test_labels_of_meka(tmp_path, sparse, c):
    text = f"@relation 'Music: {c}' % not: -C 1\n\n" + labelled(sparse, "-3" not in c)
    values, names = by_another_reader(text.replace(" % not: -C 1", ""), sparse)
    labels = names[-3:] if "-3" in c else names[:3]
    found = make(tmp_path, text)
    features = [name for name in names if name not in labels]
    assert strings(found, "feature_names") == features
    assert np.array_equal(matrix(found), np.float32(values[:, [names.index(name) for name in features]]))
    expected = [sorted(name for name in labels if row[names.index(name)]) for row in values]
    assert label_sets(found) == expected and labels == ["sea, side", "TAG_2", "farm"]
    assert strings(make(tmp_path, text, indicators=("TAG_2",)), "label_names") == ["TAG_2"]  # options come first
    assert strings(make(tmp_path, text, features=("f1", "farm")), "label_names") == ["TAG_2", "sea, side"]


XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="TAG_2"><label name="sea, side"></label></label>
<label name='farm'/>
</labels>
"""


@pytest.mark.parametrize("sparse", [False, True])
def test_labels_of_mulan(tmp_path, sparse):
    text = "@relation music\n" + labelled(sparse, False)
    values, names = by_another_reader(text, sparse)
    found = make(tmp_path, text, XML)
    assert strings(found, "feature_names") == names[:5]
    assert np.array_equal(matrix(found), np.float32(values[:, :5]))
    assert label_sets(found) == [sorted(name for name, value in zip(names[5:], row[5:], strict=True) if value) for row in values]


L = {"labels": ("l",)}
BAD = [  # text, MULAN's file, options, location
    (HEAD + "{0 1,0 2}\n", None, L, "in.arff: line 5"),
    (HEAD + "1,x\n2,y,{5}\n", None, L, "line 6"),
    (HEAD + "1_0,x\n", None, L, "line 5"),
    (HEAD + "\u0662,x\n", None, L, "line 5"),
    (HEAD + "1,o'x'\n", None, L, "line 5"),
    (HEAD + "1,dark x\n", None, L, "line 5"),
    (HEAD.replace("{x,y}", "{x y}"), None, {}, "line 3"),
    (HEAD.replace("numeric", "relational"), None, {}, "line 2"),
    (HEAD.replace("numeric", "numeric {2}"), None, {}, "line 2"),
    (HEAD.replace(" l ", " a "), None, {}, "line 3"),
    (HEAD.replace("@attribute", "%"), None, {}, "in.arff"),
    (HEAD.replace(" r\n", " 'r: -C 3'\n"), None, {}, "-C 3"),
    (HEAD, "<labels><label name='z'/></labels>", {}, "labels.xml"),
    (HEAD, "<labels/>", {}, "labels.xml"),
    (HEAD, "<labels>\n<label>", {}, "line 2"),
    (HEAD, "<labels><label name='l'/><label name='l'/></labels>", {}, "--indicators l"),
    (HEAD, XML, L, "--label-xml"),
    (HEAD, '<!DOCTYPE a [<!ENTITY b "c">]><labels/>', {}, "labels.xml"),
]


@pytest.mark.parametrize(("text", "xml", "options", "location"), BAD)
def test_bad_input_is_refused_with_its_line(tmp_path, text, xml, options, location):
    check_refusal(lambda: make(tmp_path, text, xml, **options), location)
