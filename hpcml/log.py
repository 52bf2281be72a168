"""Messages for people, on rank 0: to stderr or a logger and, in a run folder, to log.txt."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

# Categories of letters: controls, marks of direction and of no width, half a surrogate pair, ends of lines, no letter at all.
UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn"}
LONGEST = 100  # letters of a name that are shown


def visible(text: str) -> str:
    r"""One line in which what acts on a terminal, or nobody sees, is `\n`, `\x1b`, `\u202e`."""
    if text.isprintable():
        return text
    return "".join(ascii(each)[1:-1] if unicodedata.category(each) in UNSEEN else each for each in text)


def named(name: str, longest: int = LONGEST) -> str:
    """A name for a table or a title: visible, with "…" for the middle of a very long one."""
    text = visible(name)
    half = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[: longest - 1 - half]}…{text[-half:]}"


def label_with_title(name: str, titles: Sequence[str] | None, place: int) -> str:
    """A label's name for people, with its title if `place` has one: "D006801 Humans"."""
    return f"{name} {titles[place]}" if titles and titles[place] else name


def plural(count: int, noun: str, several: str = "") -> str:
    """A count of things: "1 row", "2,000 rows"; `several` if an "s" makes no plural."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: none of its letters is half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def joined(lines: Iterable[str]) -> str:
    """Return lines for people, one below the other; each stays one line, even if names in it hold line breaks."""
    return "\n".join(map(visible, lines))


class Log:
    """Lines for people. On other ranks than 0 every call does nothing."""

    def __init__(self, rank: int, quiet: bool = False, to_logger: bool = False, verbose: bool = False) -> None:
        """`quiet`: print warnings only; `verbose`: also internals; `to_logger`: print nothing, tell the logger `hpcml`."""
        self.rank, self.quiet, self.to_logger, self.verbose = rank, quiet, to_logger, verbose
        self.file: Path | None = None

    def __call__(self, message: str, has_lines: bool = False, level: int = logging.INFO) -> None:
        """Print one line, or with `has_lines` lines that were `joined`; append it to the log file, if there is one."""
        if self.rank != 0:
            return
        text = joined(message.split("\n") if has_lines else [message])
        level = logging.WARNING if "warning: " in text else level
        if self.to_logger:
            logging.getLogger("hpcml").log(level, text)
        elif level >= (logging.WARNING if self.quiet else logging.DEBUG if self.verbose else logging.INFO):
            say(text, sys.stderr)
        if self.file is not None:
            try:
                with self.file.open("a", encoding="utf-8") as out:
                    out.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n")
            except OSError as error:  # a log that cannot be written is no reason to lose the work
                say(f"{self.file}: cannot write: {error.strerror}; going on without it", sys.stderr)
                self.file = None

    def detail(self, message: str) -> None:
        """Log internals, on which a user seldom acts: printed with --verbose, and always in the log file."""
        self(message, level=logging.DEBUG)


def say(text: str, stream: TextIO) -> None:
    """Print lines at once, visibly; a reader who has gone away is no reason to lose work."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")
    try:
        print(joined(text.split("\n")), file=stream, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def size(nbytes: float) -> str:
    """A number of bytes for people: "87.5 MB", "1.25 GB"."""
    for unit, factor in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}"
    return f"{nbytes:.0f} bytes" if nbytes else "0"


def duration(seconds: float) -> str:
    """A time for people: "40 s", "12 min", "3 h 20 min", "2 d 5 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


class Progress:
    """A bar on a terminal that can redraw a line, elsewhere a line every `every` s; on rank 0."""

    def __init__(self, log: Log, what: str, total: int | None, every: float = 10.0) -> None:
        """`total` None: the end is not known."""
        self.log, self.what, self.total, self.every = log, what, total, every
        self.begin = self.last = time.monotonic()
        self.first: float | None = None  # the share done when the first report came: what was taken up again, or nearly nothing
        self.bar = None
        if log.rank == 0 and sys.stderr.isatty() and not (log.quiet or log.to_logger):
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            console = Console(stderr=True)
            if console.is_dumb_terminal:  # an editor's shell: the bar would show nothing there
                return
            texts = [TextColumn(f"{{task.{text}}}", markup=False) for text in ("description", "fields[note]")]
            columns = (texts[0], BarColumn(), MofNCompleteColumn(), texts[1], TimeElapsedColumn())
            self.bar = Bar(*columns, console=console, transient=True)
            self.bar.start()
            self.task = self.bar.add_task(visible(what), total=total, note="")

    def update(self, done: int, note: str = "", share: float | None = None) -> None:
        """Show that `done` of the total are finished: that `share` of the work, where each of them costs something else."""
        if self.log.rank != 0:
            return
        if share is None and self.total:
            share = done / self.total
        if self.first is None:
            self.begin, self.first = (time.monotonic(), share or 0.0) if done else (self.begin, 0.0)
        if self.bar is not None:
            self.bar.update(self.task, completed=done, note=visible(f"{note}{self._left(share)}"))
        elif time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            of = "" if self.total is None else f" of {self.total}"
            self.log(f"{self.what}: {done}{of}{f', {note}' if note else ''}{self._left(share)}")

    def _left(self, share: float | None) -> str:
        """How long the rest takes at the mean speed so far; "" where that is not known."""
        if share is None or self.first is None or not self.first < share < 1:
            return ""
        seconds = (time.monotonic() - self.begin) / (share - self.first) * (1 - share)
        return f", about {duration(seconds)} left"

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
