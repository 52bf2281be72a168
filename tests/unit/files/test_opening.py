"""Inputs that a user names: pipes without a writer, devices, folders, files that are too large."""

import os
import threading

import pytest

from hpcml.data.dataset import DataFile
from hpcml.data.svmlight import SvmlightStream
from hpcml.errors import DataError
from hpcml.files import opening
from hpcml.files.lines import uncompressed_size
from hpcml.files.opening import open_regular, open_stream, read_small
from hpcml.model.open import open_model
from hpcml.mpi import self_comm


@pytest.fixture
def pipe(tmp_path):
    """A named pipe without a writer."""
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


def test_waiting_for_a_writer_has_a_limit(pipe, monkeypatch):
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
