import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from hpcml.data.dataset import DataFile
from hpcml.data.svmlight import SvmlightStream
from hpcml.errors import DataError
from hpcml.files import opening
from hpcml.files.atomic import ListInParts, temporary_path, write_atomically, write_json
from hpcml.files.lines import uncompressed_size
from hpcml.files.opening import open_regular, open_stream, read_small
from hpcml.files.temporary import claimed, remove_left, temporary_name
from hpcml.model.open import open_model
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


def test_writes_to_the_target_of_a_link(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"new"


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


CONTENT = {"name": "a\nb", "values": [1, 2.5, None], "rest": {}}
ENTRIES = [{"label": text, "nested": {"k": [n, "\n"]}} for n, text in enumerate(("ä", "line\nline", "half \udc80", "]}", ""))]


@pytest.mark.parametrize("size", [0, 1, len(ENTRIES)])
def test_list_in_parts_writes_the_same_bytes(tmp_path, size):
    write_json(tmp_path / "parts.json", CONTENT | {"labels": ListInParts(iter(ENTRIES[:size]))})
    write_json(tmp_path / "whole.json", CONTENT | {"labels": ENTRIES[:size]})
    text = json.dumps(CONTENT | {"labels": ENTRIES[:size]}, indent=1, ensure_ascii=False) + "\n"
    assert (tmp_path / "parts.json").read_bytes() == text.encode(errors="backslashreplace")
    assert (tmp_path / "parts.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), DataError("No space left"), ValueError("No space left")])
def test_failing_part_leaves_no_file(tmp_path, error):
    def parts():
        yield from ENTRIES
        raise error

    with pytest.raises(ValueError if isinstance(error, ValueError) else DataError, match="No space left"):
        write_json(tmp_path / "out.json", CONTENT | {"labels": ListInParts(parts())})
    assert not list(tmp_path.iterdir())


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


OPENERS = [read_small, uncompressed_size, DataFile, open_model]


@pytest.mark.parametrize("opener", OPENERS, ids=lambda opener: opener.__name__)
def test_rejects_pipe(pipe, opener):
    with pytest.raises(DataError, match="pipe: a pipe or a device, but expected a regular file; write it to disk first"):
        opener(pipe)


def test_devices_and_folders(tmp_path):
    with pytest.raises(DataError, match="/dev/zero: a pipe or a device"):
        open_regular("/dev/zero")
    for opener in (open_regular, open_stream):
        with pytest.raises(IsADirectoryError) as caught:
            opener(tmp_path)
        assert caught.value.filename == str(tmp_path)
    with pytest.raises(DataError, match="Is a directory"):
        read_small(tmp_path)


def test_waits_for_a_writer_for_a_limited_time(pipe, monkeypatch):
    monkeypatch.setattr(opening, "WRITER_SECONDS", 0.01)
    with pytest.raises(DataError, match=r"pipe: no process opened this pipe for writing within 0\.01 s; start the writer"):
        SvmlightStream(self_comm(), pipe)


def test_waits_for_late_writer(pipe, monkeypatch):
    looked, original = threading.Event(), os.read
    monkeypatch.setattr(opening.os, "read", lambda *given: (looked.set(), original(*given))[1])

    def write():
        looked.wait(60)
        with pipe.open("wb") as out:
            out.write(b"1 1:1\n-1 2:1\n")

    writer = threading.Thread(target=write)
    writer.start()
    with SvmlightStream(self_comm(), pipe) as stream:
        assert sum(block.n_rows for block in stream) == 2
    writer.join()


def test_accepts_silent_writer(pipe):
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    file, head = open_stream(pipe)
    assert head == b""
    os.write(writer, b"spoken")
    assert file.read(6) == b"spoken"
    for descriptor in (reader, writer):
        os.close(descriptor)
    file.close()
