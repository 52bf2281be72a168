"""Bad records: the error lists the first ten, and --skip-bad converts the others."""

import gzip
import re

import h5py
import numpy as np
import pytest
from support.bad_records import CASES
from support.converted import check_refusal, converted, made

from hpcml.conversion import arff, csv_file
from hpcml.errors import BadRecordsError, DataError

PLACES = [3, 11, 11, 40, 41, 89]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 300)
    monkeypatch.setattr(arff, "BATCH", 16)


def content(path):
    found = {}

    def add(name, part):
        if isinstance(part, h5py.Dataset) and name not in ("row_ids", "row_keys") and not name.startswith("checksums"):
            found[name] = part.asstr()[:].tolist() if h5py.check_string_dtype(part.dtype) else part[:].tolist()

    with h5py.File(path) as file:
        file.visititems(add)
    return found


def input_path(folder, case):
    return folder / f"in.{case.source}".replace(".annif", ".csv" if "text,subject_uris" in case.head else ".jsonl")


@pytest.mark.parametrize("name", CASES)
def test_skipped_records_leave_the_other_rows_unchanged(tmp_path, name, capsys):
    case, path = CASES[name], input_path(tmp_path, CASES[name])
    expected = case.write(path, PLACES)
    report = converted(case.source, path, tmp_path / "some.h5", told=True, skip_bad=6, **case.options)
    lines = capsys.readouterr().err.partition(f"warning: {path}: skipped: 6 bad records (--skip-bad 6)\n")[2].splitlines()
    assert report.skipped_records == 6
    assert all(line.startswith(f"  {location}") for line, location in zip(lines, expected, strict=False)) and len(lines) >= 6
    case.write(path, PLACES, with_bad=False)
    assert converted(case.source, path, tmp_path / "all.h5", **case.options).skipped_records == 0
    assert content(tmp_path / "some.h5") == content(tmp_path / "all.h5")
    with h5py.File(tmp_path / "some.h5") as some, h5py.File(tmp_path / "all.h5") as every:
        assert some.attrs["skipped_records"] == 6 and "skipped_records" not in every.attrs


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("n", "most"), [(1, 0), (9, 0), (12, 2), (12, 11)])
def test_error_lists_the_first_ten(tmp_path, name, n, most):
    case, path = CASES[name], input_path(tmp_path, CASES[name])
    expected = case.write(path, [2, 3, 3, 3, 20, 20, 21, 22, 23, 50, 70, 71][:n])
    with pytest.raises(DataError) as caught:
        converted(case.source, path, tmp_path / "out.h5", skip_bad=most, **case.options)
    title, *lines = [str(caught.value)] * (n == 1) + str(caught.value).splitlines()
    enough = max(10, most + 1)
    assert n == 1 or f"{f'at least {enough}' if n >= enough else n} bad records" in title
    assert len(lines) == min(n, 10) and all(line.strip().startswith(each) for line, each in zip(lines, expected, strict=False))
    assert isinstance(caught.value, BadRecordsError) == (n > 1)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("source", "text", "options", "location"),
    [
        ("csv", 'text,l\na,b\nx\n"c,d\ne,f\n', {"text": ("text",), "labels": ("l",)}, "line 4"),
        ("jsonl", "x\n" + '{"text": "a"}' + " " * (1 << 20) + "\n", {"max_line_mb": 1}, "line 2"),
        ("jsonl", gzip.compress(b"x\n" * 9, mtime=0)[:-9], {}, ".gz"),
        ("pubmed", "<PubmedArticleSet><MedlineCitation></MedlineCitation><x", {}, "record 2"),
        ("pubmed", "<PubmedArticleSet><DeleteCitation><PMID>x</PMID></DeleteCitation></PubmedArticleSet>", {}, "PMID 'x'"),
    ],
)
def test_skip_bad_does_not_skip_unreadable_input(tmp_path, source, text, options, location):
    check_refusal(lambda: made(tmp_path, source, text, skip_bad=5, **options), "data", location)


def test_bad_records_of_one_batch_are_in_row_order(tmp_path):
    rows = ["1,x,a,0"] * 50
    rows[7], rows[8], rows[20], rows[30], rows[31] = "1,x,a,2", "q,x,a,0", "1,x", "nan,x,a,0", "1,q,a,3"
    with pytest.raises(BadRecordsError) as caught:
        made(tmp_path, "csv", "n,text,l,i\n" + "\n".join(rows), features=("n",), labels=("l",), indicators=("i",))
    lines = [int(line) for line in re.findall(r"csv: line (\d+): ", str(caught.value))]
    assert lines == [9, 10, 22, 32, 33]


def test_files_of_a_folder_are_records(tmp_path):
    for name, text in {"a/1": b"ships", "a/2": b"\xff", "b/3": b"corn", "b/4": b"\xfe"}.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(text)
    with pytest.raises(BadRecordsError, match=r"2 bad records[^\n]*:\n .*a/2: line 1: byte 1 .*\n .*b/4"):
        converted("folder", tmp_path / "in", tmp_path / "out.h5")
    assert converted("folder", tmp_path / "in", tmp_path / "out.h5", skip_bad=2).rows == 2


def test_line_numbers_of_rows_count_bad_lines(tmp_path):
    _, path = made(tmp_path, "jsonl", '{"text": "a b", "labels": ["x"]}\nbad\n{"text": "a c", "labels": []}\n', skip_bad=1)
    with h5py.File(path) as file:
        assert file["row_ids"].asstr()[:].tolist() == ["1", "3"]
        assert np.array_equal(file["Y/indptr"], [0, 1, 1])
