"""What is said of long work: how much is done, and how long the rest takes."""

import logging

import pytest

from hpcml import log as logs
from hpcml.log import Log, Progress, duration, size


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand, and what is said."""
    now, said = [100.0], []
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(logs, "say", lambda text, stream: said.append(text))
    monkeypatch.setattr(logs.sys.stderr, "isatty", lambda: False, raising=False)
    return now, said


def test_time_left_without_a_terminal(clock):
    now, said = clock
    progress = Progress(Log(0), "labels", 90, every=10)
    for seconds, done in ((10, 0), (20, 9), (25, 10), (60, 30), (70, 90)):
        now[0] = 100 + seconds
        progress.update(done, f"pass {seconds}")
    assert said == [
        "labels: 0 of 90, pass 10",
        "labels: 9 of 90, pass 20, about 3 min left",
        "labels: 30 of 90, pass 60, about 2 min left",
        "labels: 90 of 90, pass 70",
    ]


@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        ({}, ["rows", "warning: scales"]),
        ({"verbose": True}, ["rows", "iterations", "warning: scales"]),
        ({"quiet": True}, ["warning: scales"]),
        ({"to_logger": True}, []),
        ({"to_logger": True, "verbose": True}, []),
    ],
)
def test_internals_are_printed_on_request_and_always_in_the_file(tmp_path, capsys, caplog, kind, printed):
    caplog.set_level(logging.DEBUG, "hpcml")
    log = Log(0, **kind)
    log.file = tmp_path / "log.txt"
    log("rows")
    log.detail("iterations")
    log.detail("warning: scales")
    assert capsys.readouterr().err.splitlines() == printed
    levels = [(logging.INFO, "rows"), (logging.DEBUG, "iterations"), (logging.WARNING, "warning: scales")]
    assert [(each.levelno, each.message) for each in caplog.records] == (levels if "to_logger" in kind else [])
    assert [line.split(" ", 1)[1] for line in log.file.read_text().splitlines()] == ["rows", "iterations", "warning: scales"]
    Log(1, verbose=True).detail("of another rank")
    assert not capsys.readouterr().err


def test_a_terminal_that_cannot_redraw_gets_lines(clock, monkeypatch):
    now, said = clock
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(logs.sys.stderr, "isatty", lambda: True, raising=False)
    progress = Progress(Log(0), "labels", 90, every=10)
    now[0] += 20
    progress.update(9)
    progress.close()
    assert said == ["labels: 9 of 90"]


def test_time_left_of_work_that_was_taken_up_again(clock):
    now, said = clock
    progress = Progress(Log(0), "rows", 100, every=10)
    for seconds, done in ((5, 50), (15, 60)):
        now[0] = 100 + seconds
        progress.update(done)
    assert said == ["rows: 60 of 100, about 40 s left"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (5000, "83 min"), (12000, "3 h 20 min"), (190800, "2 d 5 h")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_sizes_for_people():
    sizes = (0, 999, 1000, 87_500_000, 1_250_000_000, 3.2e12, 5e15)
    assert [size(n) for n in sizes] == ["0", "999 bytes", "1 kB", "87.5 MB", "1.25 GB", "3.2 TB", "5 PB"]
