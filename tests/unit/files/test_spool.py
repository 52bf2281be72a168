"""What waits outside of memory comes back as it was."""

import errno
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcml.conversion.part import RowIds
from hpcml.files import spool as module
from hpcml.files.spool import ArraySpool, Spool, StringSpool, slices


@pytest.fixture(params=[16, 1 << 20])
def memory(request, monkeypatch):
    monkeypatch.setattr(module, "MEMORY_BYTES", request.param)


def test_numbers_are_read_by_slices(tmp_path, memory):
    spool, whole = Spool(tmp_path, np.int64), np.arange(10) ** 2
    for begin, end in ((0, 3), (3, 3), (3, 10)):
        spool.append(whole[begin:end].astype(np.int32))
    assert spool.size == 10
    assert spool[:].tolist() == whole.tolist()
    assert spool[2:5].tolist() == whole[2:5].tolist()
    assert spool[8:99].tolist() == whole[8:].tolist()
    assert spool[5:5].size == 0
    spool.append(np.array([7]))  # after reading
    assert spool[9:].tolist() == [81, 7]
    assert list(tmp_path.iterdir()) == []


class Three(NamedTuple):
    """What is put away."""

    numbers: np.ndarray
    number: int
    others: np.ndarray


def test_tuples_of_arrays_are_gone_through_again_and_again(tmp_path, memory):
    spool = ArraySpool(tmp_path, Three)
    assert list(spool) == []
    given = [Three(np.arange(3), 7, np.empty(0, np.float32)), Three(np.ones((2, 2)), -1, np.zeros(1, bool))]
    for arrays in given:
        spool.append(arrays)
    for _ in range(2):
        for found, expected in zip(spool, given, strict=True):
            assert type(found) is Three and type(found.number) is int
            assert [(np.asarray(a).dtype, np.asarray(a).tolist()) for a in found] == [
                (np.asarray(a).dtype, np.asarray(a).tolist()) for a in expected
            ]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4), max_size=9), st.integers(0, 9)
)
def test_row_ids(tmp_path_factory, names, cut):
    ids = RowIds(tmp_path_factory.getbasetemp())
    cut = min(cut, len(names))
    for some in (range(cut), range(cut, len(names))):
        ids.ids.extend([names[row].encode() for row in some])
        ids.lines.append(np.array(some, dtype=np.int64))
    ids.lines_above = 100
    expected = [name or str(100 + line + 1) for line, name in enumerate(names)]
    assert (ids[0 : len(names)], ids[2:5]) == (expected, expected[2:5])


def test_slices():
    assert [(some.start, some.stop) for some in slices(7, 3)] == [(0, 3), (3, 6), (6, 7)]
    assert list(slices(0)) == []


def test_a_full_disk_is_named(tmp_path):
    spool = Spool(tmp_path, np.int64)

    class Full:
        def seek(self, *_):
            return 0

        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    spool._file = Full()
    with pytest.raises(OSError, match="No space left on device") as caught:
        spool.append(np.ones(1))
    assert caught.value.filename == str(tmp_path)


def test_numbers_are_put_in_place(tmp_path, memory):
    spool = Spool(tmp_path, np.int64)
    spool.put(3, np.array([5, 6]))
    spool.put(1, np.array([7]))
    assert (spool.size, spool[:].tolist()) == (5, [0, 7, 0, 5, 6])
    spool.put(4, np.array([8, 9]))
    assert spool[2:].tolist() == [0, 5, 8, 9]


@given(st.lists(st.lists(st.text(max_size=3), max_size=4), max_size=4))
def test_strings_are_read_by_slices(tmp_path_factory, given_strings):
    spool, whole = StringSpool(tmp_path_factory.getbasetemp()), [text for some in given_strings for text in some]
    for some in given_strings:
        spool.extend([text.encode() for text in some])
    assert (len(spool), spool[:]) == (len(whole), whole)
    for begin in range(len(whole)):
        assert spool[begin : begin + 2] == whole[begin : begin + 2]
        assert spool.codes(begin, len(whole)) == [text.encode() for text in whole[begin:]]
