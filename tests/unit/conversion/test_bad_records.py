"""Bad records: all sources list the first ten, and --skip-bad makes the dataset of the others."""

import gzip
import re

import h5py
import numpy as np
import pytest
from support.bad_records import CASES
from support.converted import converted, made

from hpcml.conversion import arff, csv_file
from hpcml.errors import BadRecordsError, DataError, HpcmlError

PLACES = [3, 11, 11, 40, 41, 89]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Bad records are found at several levels of a batch; their order is that of the file all the same."""
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 300)
    monkeypatch.setattr(arff, "BATCH", 16)


def content(path):
    """All that is in a dataset, but for what names lines and counts bad records."""
    found = {}

    def add(name, part):
        if isinstance(part, h5py.Dataset) and name not in ("row_ids", "row_keys") and not name.startswith("checksums"):
            found[name] = part.asstr()[:].tolist() if h5py.check_string_dtype(part.dtype) else part[:].tolist()

    with h5py.File(path) as file:
        file.visititems(add)
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_rest_is_what_it_is_without_them(tmp_path, name, capsys):
    case, path = CASES[name], tmp_path / f"in.{CASES[name].source}".replace(".annif", ".csv" if "csv" in name else ".jsonl")
    expected = case.write(path, PLACES)
    report = converted(case.source, path, tmp_path / "some.h5", told=True, skip_bad=6, **case.options)
    said = capsys.readouterr().err
    assert report.skipped_records == 6 and "skipped: 6 bad records" in str(report)
    assert f"warning: {path}: skipped: 6 bad records (--skip-bad 6)\n" + "".join(f"  {each}\n" for each in expected) in said
    case.write(path, PLACES, with_bad=False)
    assert converted(case.source, path, tmp_path / "all.h5", **case.options).skipped_records == 0
    assert content(tmp_path / "some.h5") == content(tmp_path / "all.h5")
    with h5py.File(tmp_path / "some.h5") as some, h5py.File(tmp_path / "all.h5") as every:
        assert some.attrs["skipped_records"] == 6 and "skipped_records" not in every.attrs


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("n", "most"), [(1, 0), (2, 0), (9, 0), (10, 0), (12, 0), (4, 3), (12, 2), (12, 11), (13, 11)])
def test_errors_list_the_first_ten(tmp_path, name, n, most):
    case, path = CASES[name], tmp_path / f"in.{CASES[name].source}".replace(".annif", ".csv" if "csv" in name else ".jsonl")
    expected = case.write(path, [2, 3, 3, 3, 20, 20, 21, 22, 23, 50, 70, 71, 88][:n])
    with pytest.raises(DataError) as caught:
        converted(case.source, path, tmp_path / "out.h5", skip_bad=most, **case.options)
    enough = max(10, most + 1)
    count = f"at least {enough}" if n >= enough else n
    hint = f"--skip-bad {most} skips no more than {most}" if most else "correct them, or use --skip-bad"
    lines = [f"{path}: {count} bad records; {hint}:", *(f"  {each}" for each in expected[:10])]
    assert str(caught.value) == (expected[0] if n == 1 else "\n".join(lines))
    assert isinstance(caught.value, BadRecordsError) == (n > 1)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_what_cannot_be_divided_into_records_is_an_error_all_the_same(tmp_path):
    for source, content_, options, reason in (
        ("csv", 'text,l\na,b\nx\n"c,d\ne,f\n', {"text": ("text",), "labels": ("l",)}, "line 4: a quotation mark opens a value"),
        ("jsonl", "x\n" + '{"text": "a"}' + " " * (1 << 20) + "\n", {"max_line_mb": 1}, "line 2: longer than 1 MiB"),
        ("jsonl", gzip.compress(b"x\n" * 9)[:-9], {}, "truncated or damaged .gz file"),
        ("pubmed", "<PubmedArticleSet><MedlineCitation></MedlineCitation><x", {}, "record 2: not XML that can be read"),
        ("pubmed", "<PubmedArticleSet><DeleteCitation><PMID>x</PMID></DeleteCitation></PubmedArticleSet>", {}, "PMID 'x'"),
    ):
        with pytest.raises(DataError, match=reason) as caught:
            made(tmp_path, source, content_, skip_bad=5, **options)
        assert not isinstance(caught.value, BadRecordsError)


def test_ten_bad_records_before_such_an_error_come_first(tmp_path):
    rows = "a,b\n" + "x\n" * 10
    options = {"text": ("text",), "labels": ("l",)}
    for end in ('"c,d\n', "z," + " " * (1 << 20) + "\n"):
        with pytest.raises(BadRecordsError, match="at least 10 bad records"):
            made(tmp_path, "csv", "text,l\n" + rows + end, max_line_mb=1, **options)
        with pytest.raises(DataError, match="line 12: "):
            made(tmp_path, "csv", "text,l\n" + rows[:-2] + end, max_line_mb=1, **options)


def test_bad_numbers_in_one_batch_are_in_the_order_of_rows(tmp_path):
    """A wrong number, label, or number of values."""
    rows = ["1,x,a,0"] * 50
    rows[7], rows[8], rows[20], rows[30], rows[31] = "1,x,a,2", "q,x,a,0", "1,x", "nan,x,a,0", "1,q,a,3"
    with pytest.raises(BadRecordsError) as caught:
        made(tmp_path, "csv", "n,text,l,i\n" + "\n".join(rows), features=("n",), labels=("l",), indicators=("i",))
    lines = [int(line) for line in re.findall(r"csv: line (\d+): ", str(caught.value))]
    assert lines == [9, 10, 22, 32, 33]


def test_documents_of_folders_are_records(tmp_path):
    for name, text in {"a/1": b"ships", "a/2": b"\xff", "b/3": b"corn", "b/4": b"\xfe"}.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(text)
    with pytest.raises(BadRecordsError, match=r"2 bad records[^\n]*:\n .*a/2: line 1: byte 1 .*\n .*b/4"):
        converted("folder", tmp_path / "in", tmp_path / "out.h5")
    assert converted("folder", tmp_path / "in", tmp_path / "out.h5", skip_bad=2).rows == 2


def test_all_records_bad_and_options_without_effect(tmp_path):
    with pytest.raises(DataError, match="no rows; expected at least one"):
        made(tmp_path, "svmlight", "x\n", skip_bad=1)
    with pytest.raises(HpcmlError, match="--skip-bad -1: expected at least 0"):
        made(tmp_path, "jsonl", "x\n", skip_bad=-1)
    with pytest.raises(TypeError, match="skip_bad"):
        made(tmp_path, "synthetic", "", skip_bad=1)


def test_lines_name_rows_as_before(tmp_path):
    """A row without an id is named by its line of the file, of which bad ones are a part."""
    _, path = made(tmp_path, "jsonl", '{"text": "a b", "labels": ["x"]}\nbad\n{"text": "a c", "labels": []}\n', skip_bad=1)
    with h5py.File(path) as file:
        assert file["row_ids"].asstr()[:].tolist() == ["1", "3"]
        assert np.array_equal(file["Y/indptr"], [0, 1, 1])
