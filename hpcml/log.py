"""Messages for people: on rank 0 only, to stderr and, once a run folder exists, to its log.txt."""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path
from typing import TextIO


class Log:
    """Lines for people. On other ranks than 0 every call does nothing."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.file: Path | None = None
        self.begin = time.monotonic()

    def __call__(self, message: str) -> None:
        """Print one line and append it to the log file, if there is one."""
        if self.rank != 0:
            return
        say(message, sys.stderr)
        if self.file is not None:
            try:
                with self.file.open("a", encoding="utf-8") as out:
                    out.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {message}\n")
            except OSError as error:  # a log that cannot be written is no reason to lose the work
                say(f"{self.file}: cannot write: {error.strerror}; going on without it", sys.stderr)
                self.file = None


def say(text: str, stream: TextIO) -> None:
    """Print to a stream at once; a reader who has gone away, or cannot take it, is no reason to lose work."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")
    try:
        print(text, file=stream, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Progress:
    """A live bar on a terminal; a plain line every `every` seconds elsewhere. Only rank 0 shows anything."""

    def __init__(self, log: Log, what: str, total: int | None, every: float = 10.0) -> None:
        """`total` None: the end is not known."""
        self.log, self.what, self.total, self.every = log, what, total, every
        self.last = time.monotonic()
        self.bar = None
        if log.rank == 0 and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn())
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
            self.task = self.bar.add_task(what, total=total, note="")

    def update(self, done: int, note: str = "") -> None:
        """Show that `done` of the total are finished."""
        if self.log.rank != 0:
            return
        if self.bar is not None:
            self.bar.update(self.task, completed=done, note=note)
        elif time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            of = "" if self.total is None else f" of {self.total}"
            self.log(f"{self.what}: {done}{of} {note}".rstrip())

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
