"""Documents as JSON lines: what a line may be, and the sentence for what it may not."""

import gzip
import json
import re

import h5py
import pytest
from support.converted import label_sets, made, strings

from hpcml import mpi
from hpcml.conversion import convert
from hpcml.conversion.jsonl import Document, document_of, loaded
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log

BAD = {
    "not JSON": '{"text": "a",}',
    "a list, but expected an object": '["text"]',
    "a number, but expected an object": "17",
    "null, but expected an object": "null",
    "neither text nor title": '{"id": "7", "labels": ["x"]}',
    "text is a number, but expected a string": '{"text": 3}',
    "title is true or false, but expected a string": '{"title": true}',
    "labels is a string, but expected a list": '{"text": "a", "labels": "x"}',
    "a label is null, but expected a string": '{"text": "a", "labels": [null]}',
    "a label is a number, but expected a string": '{"text": "a", "labels": ["x", 3]}',
    "a label is empty": '{"text": "a", "labels": [""]}',
    "a label .* cannot be stored": '{"text": "a", "labels": ["x\\u0000y"]}',
    "id .* cannot be stored": '{"text": "a", "id": "\\ud800"}',
    "id is a list, but expected a string": '{"text": "a", "id": [1]}',
    "split is a number, but expected a string": '{"text": "a", "split": 1}',
    "split 'all' cannot be used": '{"text": "a", "split": "all"}',
    "split 'a/b' cannot be used": '{"text": "a", "split": "a/b"}',
    "nested too deeply": '{"text": ' + "[" * 100_000,
    "a number of more than 4,300 digits": '{"text": "a", "id": ' + "9" * 5000 + "}",
}


def make(folder, content, **options):
    return made(folder, "jsonl", content, "in", **options)


@pytest.mark.parametrize("problem", sorted(BAD))
def test_bad_lines_are_named(tmp_path, problem):
    good = '{"text": "fine", "labels": ["x"]}\n'
    with pytest.raises(DataError, match=rf"in\.jsonl: line 4: .*{problem}"):
        make(tmp_path, f"{good}\n{good}{BAD[problem]}\n[]\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_not_utf8(tmp_path):
    with pytest.raises(DataError, match=r"in\.jsonl: line 1: byte 11 is not UTF-8"):
        make(tmp_path, b'{"text": "\xe4"}\n')


def test_parse():
    line = {"id": 12, "title": "T", "text": "x \ud83d\ude00", "labels": ["b", "a"], "split": "dev", "more": 1}
    assert document_of(loaded(json.dumps(line).encode())) == Document("12", [["T"], ["x 😀"]], ["b", "a"], "dev")
    assert document_of(loaded(b'{"title": "T", "text": null, "labels": null}')) == Document("", [["T"], []], None, "")


def test_ids_labels_and_splits(tmp_path):
    lines = [
        {"id": "first", "text": "a b", "labels": ["y", "x", "y"], "split": "train"},
        {"text": "b c", "split": "dev"},
        {"title": "a", "labels": ["Ä"], "split": "train"},
        {"id": "", "text": "c", "labels": ["x"]},
    ]
    report, output = make(tmp_path, "\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    assert strings(output, "row_ids") == ["first", "3", "5", "7"]  # those without id get their line's number
    assert strings(output, "label_names") == ["x", "y", "Ä"]
    assert label_sets(output) == [["x", "y"], [], ["Ä"], ["x"]]
    with h5py.File(output) as file:
        assert {name: rows[:].tolist() for name, rows in file["splits"].items()} == {"dev": [1], "train": [0, 2]}
        assert file["text"].attrs["n_documents"] == 2
    assert report.splits == {"dev": 1, "train": 2}
    assert "split dev: 1 row" in str(report)


def test_test_share_beside_own_splits_is_refused_at_the_first_of_them(tmp_path):
    """The records behind it are not read: the last line is not JSON."""
    sentence = "--test-share 0.5: the input has splits, such as dev; remove it, or add --ignore-splits to draw others"
    for before in ("", '{"text": "a"}\n', "\n"):
        content = before + '{"text": "a", "split": "dev"}\n{"text": "b", "split": "train"}\n{'
        with pytest.raises(ConfigError, match=re.escape(sentence) + "$"):
            make(tmp_path, content, test_share=0.5)


def test_the_first_record_is_looked_at_before_a_compressed_file_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "unpacked_once", lambda *_: pytest.fail("it was unpacked"))
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a", "split": "dev"}\n' + b" " * 1000 + b"{")[:-8])
    with pytest.raises(ConfigError, match="the input has splits, such as dev"):
        convert.convert(mpi.self_comm(), "jsonl", [path], tmp_path / "out.h5", ConvertOptions(test_share=0.5), False, Log(1))
    assert not (tmp_path / "out.h5").exists()


def test_splits_of_the_input_can_be_ignored(tmp_path):
    """The dataset is that of the same documents without the key."""
    documents = [{"id": f"{n}", "text": f"a{n} b", "labels": ["x"]} for n in range(20)]
    with_splits = [document | {"split": "a/b" if n else "train"} for n, document in enumerate(documents)]
    _, ignored = make(tmp_path, "\n".join(map(json.dumps, with_splits)), ignore_splits=True, test_share=0.5)
    found = ignored.read_bytes()
    _, expected = make(tmp_path, "\n".join(map(json.dumps, documents)), test_share=0.5)
    assert found == expected.read_bytes()
    _, empty = make(tmp_path, "\n".join(json.dumps(document | {"split": ""}) for document in documents), test_share=0.5)
    assert empty.read_bytes() == found
    with pytest.raises(ConfigError, match="--ignore-splits: has no effect: no row of the input has a split; remove it"):
        make(tmp_path, '{"text": "a", "split": ""}', ignore_splits=True)


def test_no_label_and_no_line(tmp_path):
    for content, sentence in (('{"text": "a"}', "no label in any row"), ("", "the file is empty")):
        with pytest.raises(DataError, match=rf"in\.jsonl: {sentence}"):
            make(tmp_path, content)
