"""Inputs that a user names: pipes without a writer, devices, folders, files that are too large."""

import os
import threading

import pytest

from hpcml.conversion.text import read_stop_words
from hpcml.data.dataset import DataFile
from hpcml.data.svmlight import SvmlightStream
from hpcml.errors import DataError
from hpcml.files import opening
from hpcml.files.lines import open_plain, plain_size
from hpcml.files.opening import open_regular, open_stream, read_small
from hpcml.model.open import open_model
from hpcml.mpi import self_comm
from hpcml.reduce.select import _read_list


@pytest.fixture
def pipe(tmp_path):
    """A named pipe without a writer."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


OPENERS = [open_regular, read_small, read_stop_words, plain_size, DataFile, open_model, lambda path: _read_list(path)]


@pytest.mark.parametrize("opener", OPENERS, ids=lambda opener: opener.__name__)
def test_what_must_be_a_regular_file_refuses_a_pipe_at_once(pipe, opener):
    with pytest.raises(DataError, match="pipe: a pipe or a device, but expected a regular file; write it to disk first"):
        opener(pipe)


def test_lines_for_several_ranks_come_from_regular_files(pipe):
    with pytest.raises(DataError, match="a pipe or a device"), open_plain(pipe):
        pass


def test_devices_and_folders(tmp_path):
    with pytest.raises(DataError, match="/dev/zero: a pipe or a device"):
        open_regular("/dev/zero")
    for opener in (open_regular, open_stream):
        with pytest.raises(IsADirectoryError) as caught:
            opener(tmp_path)
        assert caught.value.filename == str(tmp_path)
    with pytest.raises(DataError, match="Is a directory"):
        read_small(tmp_path)


def test_a_stream_waits_for_a_writer_with_a_limit(pipe, monkeypatch):
    monkeypatch.setattr(opening, "WRITER_SECONDS", 0.01)
    with pytest.raises(DataError, match=r"pipe: nobody has opened this pipe to write for 0\.01 s; start what writes into it"):
        SvmlightStream(self_comm(), pipe)


def test_a_writer_that_comes_later_and_says_nothing_at_first(pipe, monkeypatch):
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


def test_a_silent_writer_is_let_be(pipe):
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    file, head = open_stream(pipe)
    assert head == b""
    os.write(writer, b"spoken")
    assert file.read(6) == b"spoken"
    for descriptor in (reader, writer):
        os.close(descriptor)
    file.close()


def test_small_files_are_small(tmp_path):
    path = tmp_path / "words"
    path.write_bytes("größe".encode())
    assert read_small(path) == "größe"
    assert read_small(path, 7) == "größe"
    with pytest.raises(DataError, match="words: larger than 0 MiB; expected a small text file"):
        read_small(path, 6)
    path.write_bytes(b"a\xff")
    with pytest.raises(DataError, match="words: byte 2 is not UTF-8"):
        read_stop_words(path)
