"""JSON lines: valid documents, refusals and splits."""

import json

import h5py
import pytest
from support.converted import check_refusal, label_sets, made, strings

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
