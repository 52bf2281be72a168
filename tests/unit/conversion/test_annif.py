"""Annif's corpora: the same documents in every form give the same rows; subjects by URI and by label; what is refused."""

import csv
import gzip
import io
import json

import h5py
import pytest
from support.converted import converted, label_sets, strings

from hpcml.conversion.annif import of_key_file
from hpcml.errors import ConfigError, DataError

SEA, LAW, OLD = "http://ex.org/sea", "http://ex.org/law", "http://ex.org/old"
DOCUMENTS = [
    ("The ship left the port, with grain", [SEA]),
    ('A "court", and\nan appeal', [LAW, SEA]),
    ("the old law", [LAW, OLD]),
    ("nobody has read this", []),
]
VOCABULARY = f"<{SEA}>\tSea\t1.2\n<{LAW}>\tLaw\n<{OLD}>\n"
COMMON = {"vocabulary": VOCABULARY}


def as_csv(rows, names=("text", "subject_uris")):
    out = io.StringIO(newline="")
    csv.writer(out).writerows([names, *rows])
    return out.getvalue()


def one_line(text):
    return text.replace("\n", " ")


def as_tsv(documents):
    return "".join(f"{one_line(text)}\t{' '.join(f'<{uri}>' for uri in uris)}\n" for text, uris in documents)


def values(path):
    """The rows, as they are stored."""
    with h5py.File(path) as file:
        return {name: file[f"X/{name}"][:].tobytes() for name in ("indptr", "indices", "data")} | {
            "names": strings(path, "feature_names")
        }


def make(folder, *names, vocabulary=None, ending=".tsv", output="out.h5", **options):
    if vocabulary is not None:
        options["vocabulary"] = folder / f"vocabulary{ending}"
        options["vocabulary"].write_text(vocabulary)
    inputs = [folder / name for name in names]
    return converted("annif", inputs, folder / output, **options), folder / output


def write_all(folder):
    """The documents in every form."""
    (folder / "in.tsv").write_text("\ufeff" + as_tsv(DOCUMENTS))
    (folder / "in.tsv.gz").write_bytes(gzip.compress(as_tsv(DOCUMENTS).replace("\n", "\r\n").encode()))
    (folder / "in.csv").write_text("\ufeff" + as_csv([(text, " ".join(f"<{u}>" for u in uris)) for text, uris in DOCUMENTS]))
    lines = [{"text": text, "subjects": [{"uri": uri, "label": "x"} for uri in uris]} for text, uris in DOCUMENTS]
    (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "keys").mkdir()
    (folder / "json").mkdir()
    labels = {SEA: "Sea", LAW: "Law", OLD: "old"}
    for number, (text, uris) in enumerate(DOCUMENTS):
        (folder / "keys" / f"{number}.txt").write_text("\ufeff" + text)
        if uris and number % 2:
            (folder / "keys" / f"{number}.key").write_text("".join(f"{labels[uri]}\n" for uri in uris))
        elif uris:
            (folder / "keys" / f"{number}.tsv").write_text("".join(f"<{uri}>\t{labels[uri]}\n" for uri in uris))
        (folder / "json" / f"{number}.json").write_text(json.dumps(lines[number]))
    (folder / "keys" / "README.md").write_text("no document")


@pytest.mark.parametrize("unindexed", [False, True])
@pytest.mark.parametrize("form", ["in.tsv", "in.tsv.gz", "in.csv", "in.jsonl", "keys", "json"])
def test_every_form_gives_the_same_rows(tmp_path, form, unindexed):
    write_all(tmp_path)
    (tmp_path / "x.jsonl").write_text(
        "".join(
            json.dumps({"text": text, "labels": [uri for uri in uris if uri != OLD] if uris else None}) + "\n"
            for text, uris in DOCUMENTS[: 4 if unindexed else 3]
        )
    )
    expected = tmp_path / "expected.h5"
    converted("jsonl", tmp_path / "x.jsonl", expected, pairs=True)
    report, found = make(tmp_path, form, pairs=True, unindexed=unindexed, **COMMON)
    assert report.rows == 3 + unindexed
    assert label_sets(found) == label_sets(expected) == [[SEA], [LAW, SEA], [LAW], []][: 3 + unindexed]
    assert strings(found, "label_titles") == ["Law", "Sea"]
    ids = strings(found, "row_ids")
    assert ids == (
        [f"{k}.{'txt' if form == 'keys' else 'json'}" for k in range(len(ids))]
        if form in ("keys", "json")
        else [*"1234"][: len(ids)]
    )
    if form in ("in.csv", "in.jsonl", "json"):  # their texts have the same ends of lines
        assert values(found) == values(expected)


def test_several_inputs_are_one_corpus(tmp_path):
    write_all(tmp_path)
    report, found = make(tmp_path, "in.csv", "keys", "in.tsv", "in.jsonl", **COMMON)
    assert report.rows == 12 and label_sets(found) == [[SEA], [LAW, SEA], [LAW]] * 4
    assert strings(found, "row_ids")[:5] == ["1", "2", "3", "0.txt", "1.txt"]


def test_without_a_vocabulary_all_subjects_are_labels(tmp_path):
    write_all(tmp_path)
    _, found = make(tmp_path, "in.tsv")
    assert strings(found, "label_names") == [LAW, OLD, SEA] and strings(found, "label_titles") is None
    _, found = make(tmp_path, "keys")
    assert strings(found, "label_names") == ["Law", "Sea", LAW, OLD, SEA]


def test_vocabulary_as_csv(tmp_path):
    write_all(tmp_path)
    names = as_csv(
        [(SEA, "1", "Sea", "Meer"), (LAW, "", "Law", ""), (OLD, "", "", "")], ("uri", "notation", "label_en", "label_de")
    )
    _, found = make(tmp_path, "in.tsv", vocabulary=names, ending=".csv", language="de")
    assert strings(found, "label_names") == [LAW, SEA] and strings(found, "label_titles") == [LAW, "Meer"]
    with pytest.raises(ConfigError, match="labels in en, de; choose one with --language"):
        make(tmp_path, "in.tsv", vocabulary=names, ending=".csv")
    with pytest.raises(ConfigError, match=r"--language fr: .* known: de, en"):
        make(tmp_path, "in.tsv", vocabulary=names, ending=".csv", language="fr")
    with pytest.raises(ConfigError, match="--language en: has no effect without --vocabulary"):
        make(tmp_path, "in.tsv", language="en")
    with pytest.raises(ConfigError, match="has one language; remove it"):
        make(tmp_path, "in.tsv", vocabulary=VOCABULARY, language="en")


def test_metadata_are_fields(tmp_path):
    line = {"document_id": "d1", "text": "a ship", "metadata": {"title": "Port", "year": "1987"}, "subjects": [{"label": "Sea"}]}
    (tmp_path / "in.jsonl").write_text(
        json.dumps(line) + "\n" + json.dumps({"metadata": {"title": "law"}, "subjects": [{"uri": LAW}]})
    )
    (tmp_path / "in.csv").write_text(
        as_csv(
            [("d1", "a ship", SEA, "Port", "1987"), ("", "", LAW, "law", "")],
            ("document_id", "text", "subject_uris", "title", "year"),
        )
    )
    for name in ("in.jsonl", "in.csv"):
        _, plain = make(tmp_path, name, **COMMON)
        assert strings(plain, "feature_names") == ["a", "law", "port", "ship"] and strings(plain, "row_ids") == ["d1", "2"]
        _, told = make(tmp_path, name, fields=("text=A", "title=T", "year"), whole_fields=("year",), **COMMON)
        assert strings(told, "feature_names") == ["1987 year", "a A", "law T", "port T", "ship A"]
        assert label_sets(told) == [[SEA], [LAW]]
        with pytest.raises(DataError, match="--fields author: no document has a value of it"):
            make(tmp_path, name, fields=("author",))


def test_key_files():
    text = f" Sea \n<{LAW}>\n\n\t<{OLD}>\tOld one\tmore\n"
    assert of_key_file(text) == [("", "Sea"), (LAW, ""), (OLD, "Old one")]


BAD = {
    "empty.tsv": ("", "the file is empty"),
    "utf.tsv": (b"a\t<x>\nb\xff\t<x>\n", r"utf\.tsv: line 2: byte 2 is not UTF-8"),
    "uri.tsv": ("a\t<x>\nb\t<>\n", None),
    "nul.tsv": ("a\t<x>\nb\t<\0>\n", r"nul\.tsv: line 2: a subject .* cannot be stored"),
    "text.csv": ("title,subject_uris\na,<x>\n", r"text\.csv: line 1: no column 'text'"),
    "short.csv": ('text,subject_uris\n"a\nb",<x>\na\n', r"short\.csv: line 4: 1 values, but the header names 2 columns"),
    "quote.csv": ('text,subject_uris\na,<x>\n"a,<x>\n', r"quote\.csv: line 3: a quotation mark opens a value that nothing closes"),
    "not.jsonl": ('{"text": "a"}\n{]\n', r"not\.jsonl: line 2: not JSON"),
    "text.jsonl": ('{"text": 1}\n', r"text\.jsonl: line 1: text must be a string"),
    "none.jsonl": ('{"subjects": []}\n', r"none\.jsonl: line 1: neither text nor metadata"),
    "subject.jsonl": ('{"text": "a", "subjects": ["x"]}\n', r"line 1: a subject must be"),
    "metadata.jsonl": ('{"text": "a", "metadata": {"x": 1}}\n', r"line 1: metadata must be an object whose values are strings"),
    "long.jsonl": ('{"text": "' + "a" * (1 << 20) + '"}\n', r"line 1: longer than 1 MiB"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_input_is_named(tmp_path, name):
    content, problem = BAD[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    if problem is None:
        assert make(tmp_path, name)[0].rows == 1  # a subject without a name is none, so that row is left out
        return
    with pytest.raises(DataError, match=problem):
        make(tmp_path, name, max_line_mb=1)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_bad_folders_and_vocabularies(tmp_path):
    (tmp_path / "docs").mkdir()
    with pytest.raises(DataError, match=r"no documents; expected \.txt files"):
        make(tmp_path, "docs")
    (tmp_path / "docs" / "a.txt").write_bytes(b"a\xff")
    with pytest.raises(DataError, match=r"a\.txt: line 1: byte 2 is not UTF-8"):
        make(tmp_path, "docs")
    (tmp_path / "in.tsv").write_text("a\t<x>\n")
    for content, ending, problem in (
        ("", ".tsv", "no subject with a label"),
        ("<>\tA\n", ".tsv", r"line 1: '' is no URI"),
        ("uri,notation\nx,1\n", ".csv", "no column uri or no column label_en"),
        ("uri,label_en\nx\n", ".csv", "line 2: 1 values, but the header names 2"),
    ):
        with pytest.raises(DataError, match=problem):
            make(tmp_path, "in.tsv", vocabulary=content, ending=ending)
    with pytest.raises(ConfigError, match="is also an input"):
        make(tmp_path, "in.tsv", vocabulary="<x>\tX\n", output="vocabulary.tsv")
