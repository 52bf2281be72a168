"""Temporary names: they fit, and what a dead process left is removed, but nothing else."""

import os
import signal
import subprocess
import sys

import pytest

from hpcml.files.atomic import temporary_path, write_atomically
from hpcml.files.temporary import claimed, remove_left, temporary_name
from hpcml.mpi import self_comm

SELF = self_comm()


@pytest.mark.parametrize("name", ["out.csv", "x" * 255, "ä" * 127, "x" * 200 + ".h5"])
def test_writes_any_valid_file_name(tmp_path, name):
    write_atomically(tmp_path / name, b"old")
    with temporary_path(SELF, tmp_path / name, overwrite=True) as temporary:
        temporary.with_name(f"{temporary.name}-1234567890").touch()  # a rank's own part
        temporary.with_name(f"{temporary.name}-1234567890").unlink()
        temporary.write_bytes(b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: b"new"}


def test_names_of_long_outputs_differ(tmp_path):
    assert temporary_name(tmp_path / ("x" * 250 + "1")) != temporary_name(tmp_path / ("x" * 250 + "2"))


WRITES = """
import sys, time
from pathlib import Path
from hpcml.files.temporary import claimed, temporary_name
kept = []
for final, folder in ((Path(sys.argv[1], "out.h5"), False), (Path(sys.argv[1], "run"), True)):
    temporary = temporary_name(final)
    kept.append(claimed(temporary, final, folder))
    kept[-1].__enter__()
    temporary.with_name(temporary.name + "-1").touch()
print("READY", flush=True)
time.sleep(60)
"""


def test_removes_files_of_dead_process(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", WRITES, tmp_path], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "READY\n"
    for name in ("out.h5", "run"):
        remove_left(tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 4
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    write_atomically(tmp_path / "out.h5", b"whole")
    remove_left(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["out.h5"]


def test_keeps_other_files(tmp_path):
    final = tmp_path / "out.h5"
    ours = temporary_name(final).name
    host = ours.partition(".part-")[2].rpartition("-")[0]
    others = [
        f".out.h5.part-else{host}-12",
        ".out.h5.part-12",
        f".more.out.h5.part-{host}-12",
        f".out.h5.part-{host}-x",
        "out.h5.part",
    ]
    for name in others:
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / f".out.h5.part-{host}-13")  # opening it must not wait
    with claimed(tmp_path / ours, final):
        remove_left(final)
        assert (tmp_path / ours).exists()
    assert set(others) <= {path.name for path in tmp_path.iterdir()}
