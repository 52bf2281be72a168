"""Files that unpack to a huge size: memory is bounded by the line limit, and rows need a few bytes each."""

import subprocess
import sys
import zlib

import h5py
import numpy as np
import pytest
from support.jobs import done, refused
from support.make import model

MIB = 1 << 20
# A child process whose address space or data may grow by a limited number of bytes after Python has started.
CHILD = """
import resource, sys
kind, room = sys.argv[1:3]
pages = int(open("/proc/self/statm").read().split()[0 if kind == "RLIMIT_AS" else 5])
limit = pages * resource.getpagesize() + int(room)
resource.setrlimit(getattr(resource, kind), (limit, limit))
sys.argv[1:] = sys.argv[3:]
from hpcml.__main__ import main
main()
"""


def gzip_of(path, begin, block, times, end):
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = [pack.compress(part) + pack.flush(zlib.Z_FULL_FLUSH) for part in (begin, block)]
    packed.append(pack.compress(end) + pack.flush())
    crc = zlib.crc32(begin)
    for _ in range(times):
        crc = zlib.crc32(block, crc)
    size = len(begin) + times * len(block) + len(end)
    tail = zlib.crc32(end, crc).to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")
    path.write_bytes(b"\x1f\x8b\x08" + bytes(7) + packed[0] + packed[1] * times + packed[2] + tail)
    return path


def run(kind, room, *args):
    command = [sys.executable, "-c", CHILD, kind, str(room), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bombs")
    gzip_of(folder / "line.svm", b"1 1:1\n1 2:1 #", b"a" * MIB, 1024, b"\n")
    gzip_of(folder / "line.jsonl", b'{"text": "a", "labels": ["x"]}\n{"text": "', b"a" * MIB, 1024, b'"}\n')
    assert sum(path.stat().st_size for path in folder.iterdir()) < 5 * MIB
    model(folder / "model.h5", np.ones((1, 2)))
    return folder


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (["convert", "svmlight"], "line.svm"),
        (["convert", "jsonl"], "line.jsonl"),
        (["train", "mbw"], "line.svm"),
        (["predict", "model.h5"], "line.svm"),
    ],
)
def test_line_of_a_gigabyte_is_refused(bombs, tmp_path, command, file):
    command = [bombs / part if part.endswith(".h5") else part for part in command]
    output = tmp_path / ("out.csv" if command[0] == "predict" else "out.h5")
    result = run("RLIMIT_AS", 1200 * MIB, *command, bombs / file, "-o", output)
    refused(result, f"{bombs / file}: line 2: ", "--max-line-mb")
    assert command[0] == "train" or not list(tmp_path.iterdir())


def test_rows_need_a_few_bytes_each(tmp_path):
    times, block = 100, b"1 1:1\n" * 43_690
    path = gzip_of(tmp_path / "rows", b"-1 2:1\n", block, times, b"")
    done(run("RLIMIT_DATA", 440 * MIB, "convert", "svmlight", path, "-o", tmp_path / "out.h5"))
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["X/indptr"].shape == (times * 43_690 + 2,)
    assert {path.name for path in tmp_path.iterdir()} == {"out.h5", "rows"}


def test_max_line_mb_allows_longer_lines(tmp_path):
    for name, source, line in (("in.svm", "svmlight", b"1 1:1 #" + b"a" * (17 * MIB) + b"\n"),):
        (tmp_path / name).write_bytes(line)
        given = ["convert", source, tmp_path / name, "-o", tmp_path / f"{name}.h5"]
        assert run("RLIMIT_AS", 1200 * MIB, *given).returncode == 2
        done(run("RLIMIT_AS", 1200 * MIB, *given, "--max-line-mb", 18))
