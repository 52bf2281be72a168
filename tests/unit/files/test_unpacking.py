"""Compressed inputs are unpacked once, and the copies go."""

import gzip
import io
import lzma
import subprocess
import sys
import tarfile
import zipfile

import pytest
from support.compressed import archive, zipped, zstd

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files import lines as lines_module
from hpcml.files.lines import UNPACKED_COPIES, line_blocks, lines_before, plain_name, uncompressed_size, unpacked_once

CONTENT = b"".join(b"line %d\n" % n for n in range(500))


def skippable(content):
    """A frame that holds no data, as pzstd writes it, before and between frames of data."""
    frame = b"\x52\x2a\x4d\x18\3\0\0\0abc"
    return frame + zstd(content[:1000]) + frame + zstd(b"") + zstd(content[1000:])


def tar(content):
    """An archive of one file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as opened:
        member = tarfile.TarInfo("a.csv")
        member.size = len(content)
        opened.addfile(member, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, skippable, zipped])
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


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(CONTENT)[:-5], "truncated or damaged .gz file"),
        (gzip.compress(b"a\n" * 7 + b"b" * 101 + b"\n"), "line 8: longer than"),
    ],
    ids=["truncated", "long line"],  # gzip's bytes contain the time
)
def test_rejects_damage_and_long_lines(tmp_path, content, reason):
    path = tmp_path / "lines"
    path.write_bytes(content)
    with pytest.raises(DataError, match=reason), unpacked_once(mpi.self_comm(), [path], tmp_path, 100):
        pass
    assert not UNPACKED_COPIES
    assert list(tmp_path.iterdir()) == [path]


STORED = zipfile.ZIP_STORED


@pytest.mark.parametrize("method", [None, STORED, zipfile.ZIP_LZMA])
def test_reads_from_any_byte(tmp_path, method):
    """Without a copy too, as by a rank that reads it from beginning to end; larger than all buffers."""
    content = CONTENT * 700
    path = tmp_path / "data.jsonl"
    path.write_bytes(zstd(content) if method is None else archive(("a", content), method=method))
    assert uncompressed_size(path) == len(content) == 3_073_000
    for begin in (0, 1, 100, 3_000_000, len(content) - 1):
        found = b"".join(block for _, block in line_blocks(path, begin, len(content), 1 << 16))
        assert found == content[content.find(b"\n", begin - 1) + 1 if begin else 0 :]


REFUSED = {
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
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.more("files")
def test_decompression_has_bounded_memory(tmp_path):
    """In a process of its own. 512 MiB of zeros are 16 KiB as zst."""
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
