"""Line ranges of plain and compressed files."""

import bz2
import gzip
import lzma
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.lines import byte_range, line_blocks, lines_before, uncompressed_size
from hpcml.partition import even_bounds

COMPRESS = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@given(
    lines=st.lists(st.text("ab \rü", max_size=9).map(str.encode), min_size=1, max_size=12),
    last_newline=st.booleans(),
    n_parts=st.integers(1, 9),
    block_bytes=st.integers(1, 40),
)
def test_ranges_give_every_line_once(tmp_path_factory, lines, last_newline, n_parts, block_bytes):
    content = b"\n".join(lines) + (b"\n" if last_newline else b"")
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(content)
    bounds = even_bounds(len(content), n_parts).tolist()
    taken = b""
    for begin, end in pairwise(bounds):
        for offset, block in line_blocks(path, begin, end, block_bytes):
            assert offset == len(taken)
            assert offset == 0 or content[offset - 1 : offset] == b"\n"
            assert begin <= offset < end
            taken += block
    assert taken == content


@pytest.mark.parametrize("kind", sorted(COMPRESS))
def test_compression_is_found_by_content(tmp_path, kind):
    content = b"".join(b"line %d\n" % i for i in range(1000))
    path = tmp_path / "lines"
    path.write_bytes(COMPRESS[kind](content))
    assert uncompressed_size(path) == len(content)
    assert byte_range(mpi.self_comm(), path) == (0, len(content))
    middle = len(content) // 2
    parts = [b"".join(block for _, block in line_blocks(path, *ends, 100)) for ends in ((0, middle), (middle, len(content)))]
    assert b"".join(parts) == content
    assert lines_before(path, content.index(b"line 777\n")) == 777


@pytest.mark.parametrize(("kind", "damage"), [("gz", "truncated"), ("bz2", "changed"), ("xz", "truncated"), ("xz", "changed")])
def test_rejects_damaged_file(tmp_path, kind, damage):
    whole = COMPRESS[kind](bytes(i * i % 251 for i in range(5000)))
    half = len(whole) // 2
    path = tmp_path / f"lines.{kind}"
    path.write_bytes(whole[:half] if damage == "truncated" else whole[:half] + bytes(9) + whole[half + 9 :])
    with pytest.raises(DataError, match=rf"lines.{kind}: truncated or damaged .{kind} file"):
        byte_range(mpi.self_comm(), path)


def test_rejects_shrinking_file(tmp_path):
    (tmp_path / "lines").write_bytes(b"a\nb\n")
    with pytest.raises(DataError, match="must not change"):
        list(line_blocks(tmp_path / "lines", 0, 100))


@given(
    lines=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    last_newline=st.booleans(),
    n_parts=st.integers(1, 4),
    block_bytes=st.integers(1, 40),
    max_line=st.integers(1, 9),
)
def test_names_the_first_long_line(tmp_path_factory, lines, last_newline, n_parts, block_bytes, max_line):
    content = b"\n".join(b"x" * size for size in lines) + b"\n" * last_newline
    path = tmp_path_factory.getbasetemp() / "long"
    path.write_bytes(content)
    found = []
    for begin, end in pairwise(even_bounds(len(content), n_parts).tolist()):
        try:
            found.append(b"".join(block for _, block in line_blocks(path, begin, end, block_bytes, max_line)))
        except DataError as error:
            assert f"line {[size > max_line for size in lines].index(True) + 1}: longer than" in str(error)
            assert "--max-line-mb" in str(error)
            return
    assert max(lines) <= max_line
    assert b"".join(found) == content


def test_xz_files_of_several_streams(tmp_path):
    path = tmp_path / "lines"
    packed = lzma.compress(b"a\n" * 99) + bytes(8) + lzma.compress(b"") + lzma.compress(b"b\n")
    for tail in (b"", b"\0\0\0\0", b"no stream"):
        path.write_bytes(packed + tail)
        assert uncompressed_size(path) == 200
        assert b"".join(block for _, block in line_blocks(path, 0, 200)) == b"a\n" * 99 + b"b\n"
    path.write_bytes(packed[:-9])
    with pytest.raises(DataError, match=r"truncated or damaged \.xz file"):
        uncompressed_size(path)


def test_rejects_xz_file_that_needs_much_memory(tmp_path):
    path = tmp_path / "lines.xz"
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    whole = lzma.compress(b"a\n", filters=filters)
    place = whole.index(b"\x21\x01") + 2  # of the dictionary's size in the header of the block
    header = bytearray(whole[12 : 12 + 4 * (whole[12] + 1)])
    header[place - 12] = 38  # 2 GiB
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    path.write_bytes(whole[:12] + header + whole[12 + len(header) :])
    with pytest.raises(
        DataError, match=r"lines\.xz: needs more than 256 MiB of memory to decompress; compress it again with xz -9"
    ):
        uncompressed_size(path)
