import bz2
import gzip
import io
import lzma
import subprocess
import sys
import tarfile
import zipfile
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.compressed import archive, zipped, zstd

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files import lines as lines_module
from hpcml.files.lines import (
    BUFFER_BYTES,
    UNPACKED_COPIES,
    byte_range,
    line_blocks,
    lines_before,
    plain_name,
    uncompressed_size,
    unpacked_once,
)
from hpcml.partition import even_bounds

COMPRESS = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@given(
    lines=st.lists(st.text("ab \rü", max_size=9).map(str.encode), min_size=1, max_size=12),
    last_newline=st.booleans(),
    n_parts=st.integers(1, 9),
    block_bytes=st.integers(1, 40),
)
def test_ranges_yield_every_line_once(tmp_path_factory, lines, last_newline, n_parts, block_bytes):
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


def test_ranges_begin_inside_lines_longer_than_the_buffer(tmp_path):
    content = b"".join(letter * (3 * BUFFER_BYTES) + b"\n" for letter in (b"a", b"b", b"c"))
    (tmp_path / "lines").write_bytes(content)
    bounds = [0, 10, len(content) // 2, len(content)]
    blocks = [block for begin, end in pairwise(bounds) for _, block in line_blocks(tmp_path / "lines", begin, end)]
    assert b"".join(blocks) == content


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


CONTENT = b"".join(b"line %d\n" % n for n in range(500))


def skippable(content):
    frame = b"\x52\x2a\x4d\x18\3\0\0\0abc"
    return frame + zstd(content[:1000]) + frame + zstd(b"") + zstd(content[1000:])


def tar(content):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as opened:
        member = tarfile.TarInfo("a.csv")
        member.size = len(content)
        opened.addfile(member, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, skippable, zipped])
def test_reads_uncompressed_copy(tmp_path, pack, monkeypatch):
    path, plain = tmp_path / "lines", tmp_path / "plain"
    path.write_bytes(pack(CONTENT))
    plain.write_bytes(CONTENT)
    kinds, unpacked = [], lines_module.unpacked
    monkeypatch.setattr(lines_module, "unpacked", lambda file, kind: kinds.append(kind) or unpacked(file, kind))
    with unpacked_once(mpi.self_comm(), [path, plain, tmp_path, tmp_path / "absent"], tmp_path, 100):
        assert len(kinds) == 1 and kinds[0]
        assert uncompressed_size(path) == len(CONTENT)
        assert b"".join(block for _, block in line_blocks(path, 0, len(CONTENT), 100)) == CONTENT
        assert lines_before(path, len(CONTENT)) == 500
        assert kinds[1:] == [""] * 3
        assert set(UNPACKED_COPIES) == {path}
    assert not UNPACKED_COPIES
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lines", "plain"]
    assert uncompressed_size(path) == len(CONTENT)


STORED = zipfile.ZIP_STORED


@pytest.mark.parametrize("method", [None, STORED, zipfile.ZIP_LZMA])
def test_reads_from_any_byte(tmp_path, method):
    content = CONTENT * 700
    path = tmp_path / "data.jsonl"
    path.write_bytes(zstd(content) if method is None else archive(("a", content), method=method))
    assert uncompressed_size(path) == len(content) == 3_073_000
    for begin in (0, 1, 100, 3_000_000, len(content) - 1):
        found = b"".join(block for _, block in line_blocks(path, begin, len(content), 1 << 16))
        assert found == content[content.find(b"\n", begin - 1) + 1 if begin else 0 :]


REFUSED = {
    "gz, cut": (gzip.compress(CONTENT)[:-5], "truncated or damaged .gz file"),
    "long line": (gzip.compress(b"a\n" * 7 + b"b" * 101 + b"\n"), "line 8: longer than"),
    "tar.gz": (gzip.compress(tar(CONTENT)), r"a tar archive; unpack it"),
    "five": (archive(*((f"{n}\n", b"") for n in range(5))), r"a ZIP archive of 5 files \(0\\n, 1\\n, 2\\n, \.\.\.\), but"),
    "folders": (archive(("a/", b"")), r"a ZIP archive of 0 files, but expected one"),
    "zst, cut": (zstd(CONTENT)[:-5], r"truncated or damaged .zst file"),
    "zst, memory": (
        zstd(CONTENT, window_log=30, enable_long_distance_matching=1),
        "needs more than 256 MiB of memory.*again with zstd -9",
    ),
    "cut": (zipped(CONTENT)[:-5], r"truncated or damaged .zip file \("),
    "changed": (
        archive(("a", CONTENT), method=STORED).replace(b"line 4", b"line 5"),
        r"truncated or damaged .zip file \(Bad CRC-32",
    ),
    "method": (
        zipped(CONTENT).replace(b"\x14\0\0\0\x08\0", b"\x14\0\0\0\x09\0"),
        r"a ZIP archive that Python cannot read \(.*\); unpack it",
    ),
    "encrypted": (
        archive(("a", b"x")).replace(b"\x14\0\0\0\x08\0", b"\x14\0\1\0\x08\0"),
        "the file 'a' in the ZIP archive is encrypt",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rejects_archive(tmp_path, case):
    content, reason = REFUSED[case]
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"^{path}: {reason}"), unpacked_once(mpi.self_comm(), [path], tmp_path, 100):
        pass
    assert not UNPACKED_COPIES and list(tmp_path.iterdir()) == [path]


@pytest.mark.more("files")
def test_decompression_has_bounded_memory(tmp_path):
    (tmp_path / "data").write_bytes(zstd(bytes(1 << 29)))
    script = (
        "import re, sys; from pathlib import Path; from hpcml.files.lines import uncompressed_size\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())\n"
        "print(uncompressed_size(Path(sys.argv[1])), int(peak[1]) >> 10)"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "data"], capture_output=True, text=True, check=True)
    size, peak = map(int, done.stdout.split())
    assert size == 1 << 29 and peak < 300


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv.gz", "a.csv"),
        ("a.csv.ZST", "a.csv"),
        ("a", "a"),
        ("a.zip", "lines.jsonl"),
        ("b.csv.zip", "b.csv"),
    ],
)
def test_plain_name(tmp_path, name, expected):
    (tmp_path / name).write_bytes(zipped(CONTENT) if name == "a.zip" else b"no archive")
    assert plain_name(tmp_path / name) == expected
