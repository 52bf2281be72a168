"""Compressed inputs are unpacked once, and the copies go."""

import bz2
import gzip
import lzma

import pytest

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files import lines as lines_module
from hpcml.files.lines import COPIES, line_blocks, lines_before, plain_size, unpacked_once

CONTENT = b"".join(b"line %d\n" % n for n in range(500))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_copy_is_read_in_place_of_the_file(tmp_path, pack, monkeypatch):
    path, plain = tmp_path / "lines", tmp_path / "plain"
    path.write_bytes(pack(CONTENT))
    plain.write_bytes(CONTENT)
    kinds, unpacked = [], lines_module.unpacked
    monkeypatch.setattr(lines_module, "unpacked", lambda file, kind: kinds.append(kind) or unpacked(file, kind))
    with unpacked_once(mpi.self_comm(), [path, plain, tmp_path, tmp_path / "absent"], tmp_path, 100):
        assert len(kinds) == 1 and kinds[0]
        assert plain_size(path) == len(CONTENT)
        assert b"".join(block for _, block in line_blocks(path, 0, len(CONTENT), 100)) == CONTENT
        assert lines_before(path, len(CONTENT)) == 500
        assert kinds[1:] == [""] * 3
        assert set(COPIES) == {path}
    assert not COPIES
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lines", "plain"]
    assert plain_size(path) == len(CONTENT)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(CONTENT)[:-5], "truncated or damaged .gz file"),
        (gzip.compress(b"a\n" * 7 + b"b" * 101 + b"\n"), "line 8: longer than"),
        (gzip.compress(b"a\n" * (1 << 22) + b"b" * (1 << 23)), "line 4194305: longer than"),  # over several blocks
    ],
    ids=["truncated", "a long line", "a long line behind several blocks"],  # gzip's bytes have the time in them
)
def test_what_cannot_be_unpacked(tmp_path, content, reason):
    path = tmp_path / "lines"
    path.write_bytes(content)
    with pytest.raises(DataError, match=reason), unpacked_once(mpi.self_comm(), [path], tmp_path, 100):
        pass
    assert not COPIES
    assert list(tmp_path.iterdir()) == [path]
