"""Annif corpora: every format gives the same rows; subjects by URI and label; refusals."""

import csv
import gzip
import io
import json

import h5py
import pytest
from support.converted import check_refusal, converted, label_sets, strings

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
    for ending, options in ((".csv", {}), (".csv", {"language": "fr"}), (".tsv", {"language": "en"})):
        options |= {"vocabulary": names if ending == ".csv" else VOCABULARY, "ending": ending}
        check_refusal(lambda options=options: make(tmp_path, "in.tsv", **options), "language")


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
        check_refusal(lambda name=name: make(tmp_path, name, fields=("author",)), "--fields author")


BAD = {  # file: content, location in the error
    "utf.tsv": (b"a\t<x>\nb\xff\t<x>\n", "line 2"),
    "nul.tsv": ("a\t<x>\nb\t<\0>\n", "line 2"),
    "text.csv": ("title,subject_uris\na,<x>\n", "line 1"),
    "short.csv": ('text,subject_uris\n"a\nb",<x>\na\n', "line 4"),
    "quote.csv": ('text,subject_uris\na,<x>\n"a,<x>\n', "line 3"),
    "not.jsonl": ('{"text": "a"}\n{]\n', "line 2"),
    "text.jsonl": ('{"text": 1}\n', "line 1"),
    "none.jsonl": ('{"subjects": []}\n', "line 1"),
    "subject.jsonl": ('{"text": "a", "subjects": ["x"]}\n', "line 1"),
    "metadata.jsonl": ('{"text": "a", "metadata": {"x": 1}}\n', "line 1"),
    "long.jsonl": ('{"text": "' + "a" * (1 << 20) + '"}\n', "line 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_its_line(tmp_path, name):
    content, location = BAD[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    check_refusal(lambda: make(tmp_path, name, max_line_mb=1), name, location)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_bad_folders_and_vocabularies_are_refused(tmp_path):
    (tmp_path / "docs").mkdir()
    check_refusal(lambda: make(tmp_path, "docs"), "docs")
    (tmp_path / "docs" / "a.txt").write_bytes(b"a\xff")
    check_refusal(lambda: make(tmp_path, "docs"), "a.txt: line 1")
    (tmp_path / "in.tsv").write_text("a\t<x>\n")
    for text, ending in (("", ".tsv"), ("<>\tA\n", ".tsv"), ("uri,notation\nx,1\n", ".csv"), ("uri,label_en\nx\n", ".csv")):
        options = {"vocabulary": text, "ending": ending}
        check_refusal(lambda options=options: make(tmp_path, "in.tsv", **options), f"vocabulary{ending}")
