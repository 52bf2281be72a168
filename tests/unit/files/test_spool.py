import errno
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcml.conversion.part import RowIds
from hpcml.files import spool as module
from hpcml.files.spool import DiskArray, DiskStrings, DiskTuples


@pytest.fixture(params=[16, 1 << 20])
def memory(request, monkeypatch):
    monkeypatch.setattr(module, "MEMORY_BYTES", request.param)


def test_numbers_are_appended_put_and_read_by_slices(tmp_path, memory):
    spool, whole = DiskArray(tmp_path, np.int64), np.arange(10) ** 2
    for begin, end in ((0, 3), (3, 3), (3, 10)):
        spool.append(whole[begin:end].astype(np.int32))
    assert spool.size == 10
    for part in (slice(None), slice(2, 5), slice(8, 99), slice(5, 5)):
        assert spool[part].tolist() == whole[part].tolist()
    spool.put(12, np.array([7]))  # after reading; the gap is filled with zeros
    spool.put(0, np.array([-1]))
    assert spool[:].tolist() == [-1, *whole[1:].tolist(), 0, 0, 7]
    assert list(tmp_path.iterdir()) == []


class Three(NamedTuple):
    numbers: np.ndarray
    number: int
    others: np.ndarray


def test_tuples_are_read_repeatedly(tmp_path, memory):
    spool = DiskTuples(tmp_path, Three)
    assert list(spool) == []
    rows = [Three(np.arange(3), 7, np.empty(0, np.float32)), Three(np.ones((2, 2)), -1, np.zeros(1, bool))]
    for row in rows:
        spool.append(row)
    for _ in range(2):
        for found, expected in zip(spool, rows, strict=True):
            assert type(found) is Three and type(found.number) is int
            for a, b in zip(found, expected, strict=True):
                assert (np.asarray(a).dtype, np.asarray(a).tolist()) == (np.asarray(b).dtype, np.asarray(b).tolist())


def test_row_ids_default_to_line_numbers(tmp_path):
    ids, names = RowIds(tmp_path), ["a", "", "ü", "", "b"]
    for rows in (range(2), range(2, 5)):
        ids.ids.extend([names[row].encode() for row in rows])
        ids.lines.append(np.array(rows, dtype=np.int64))
    ids.lines_above = 100
    assert (ids[0:5], ids[2:4]) == (["a", "102", "ü", "104", "b"], ["ü", "104"])


def test_full_disk_is_reported_with_the_folder(tmp_path, monkeypatch):
    spool = DiskArray(tmp_path, np.int64)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool._file, "write", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        spool.append(np.ones(1))
    assert caught.value.filename == str(tmp_path)


@given(st.lists(st.lists(st.text(max_size=3), max_size=4), max_size=4))
def test_strings_are_read_by_slices(tmp_path_factory, parts):
    spool, whole = DiskStrings(tmp_path_factory.getbasetemp()), [text for part in parts for text in part]
    for part in parts:
        spool.extend([text.encode() for text in part])
    assert (len(spool), spool[:]) == (len(whole), whole)
    for begin in range(len(whole)):
        assert spool[begin : begin + 2] == whole[begin : begin + 2]
        assert spool.codes(begin, len(whole)) == [text.encode() for text in whole[begin:]]
