"""Messages for people, from rank 0: to stderr or a logger and, in a run folder, to log.txt."""

import io
import logging
import os
import sys
import time
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

# Unicode categories: controls, format characters, unpaired surrogates, line and paragraph separators, unassigned.
UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn"}
LONGEST = 100  # characters of a name that are printed


def visible(text: str) -> str:
    r"""Return one line in which control and invisible characters are escaped, as in `\n`, `\x1b`, `\u202e`."""
    if text.isprintable():
        return text
    return "".join(ascii(each)[1:-1] if unicodedata.category(each) in UNSEEN else each for each in text)


def named(name: str, longest: int = LONGEST) -> str:
    text = visible(name)
    half = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[: longest - 1 - half]}…{text[-half:]}"


def label_with_title(name: str, titles: Sequence[str] | None, label: int) -> str:
    return f"{name} {titles[label]}" if titles and titles[label] else name


def plural(count: int, noun: str, several: str = "") -> str:
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def joined(lines: Iterable[str]) -> str:
    return "\n".join(map(visible, lines))


class Log:
    """Writes messages on rank 0; on other ranks calls have no effect."""

    def __init__(self, rank: int, quiet: bool = False, to_logger: bool = False, verbose: bool = False) -> None:
        """`quiet`: print warnings only; `verbose`: also internals; `to_logger`: print nothing, use the logger `hpcml`."""
        self.rank, self.quiet, self.to_logger, self.verbose = rank, quiet, to_logger, verbose
        self.file: Path | None = None

    def __call__(self, message: str, has_lines: bool = False, level: int = logging.INFO) -> None:
        """Print one line (with `has_lines`, `joined` lines) and append it to the log file, if there is one."""
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
            except OSError as error:  # a failing log must not end the run
                say(f"{self.file}: cannot write: {error.strerror}; continuing without it", sys.stderr)
                self.file = None

    def detail(self, message: str) -> None:
        self(message, level=logging.DEBUG)


def say(text: str, stream: TextIO) -> None:
    """Print escaped lines at once; if the reader of the stream has gone, later output is discarded."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")
    try:
        print(joined(text.split("\n")), file=stream, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def size(nbytes: float) -> str:
    for unit, factor in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}"
    return f"{nbytes:.0f} bytes" if nbytes else "0"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


class Progress:
    """A progress bar on a terminal that can redraw a line, else a line every `every` seconds; on rank 0."""

    def __init__(self, log: Log, what: str, total: int | None, every: float = 10.0) -> None:
        self.log, self.what, self.total, self.every = log, what, total, every
        self.begin = self.last = time.monotonic()
        self.first: float | None = None  # finished share at the first report: results of an earlier job, or nearly nothing
        self.bar = None
        if log.rank == 0 and sys.stderr.isatty() and not (log.quiet or log.to_logger):
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            console = Console(stderr=True)
            if console.is_dumb_terminal:  # such as an editor's shell, which cannot show the bar
                return
            texts = [TextColumn(f"{{task.{text}}}", markup=False) for text in ("description", "fields[note]")]
            columns = (texts[0], BarColumn(), MofNCompleteColumn(), texts[1], TimeElapsedColumn())
            self.bar = Bar(*columns, console=console, transient=True)
            self.bar.start()
            self.task = self.bar.add_task(visible(what), total=total, note="")

    def update(self, done: int, note: str = "", share: float | None = None) -> None:
        """Show that `done` units are finished; `share` is the finished share of the work if units differ in cost."""
        if self.log.rank != 0:
            return
        if share is None and self.total:
            share = done / self.total
        if self.first is None:
            self.begin, self.first = (time.monotonic(), share or 0.0) if done else (self.begin, 0.0)
        if self.bar is not None:
            self.bar.update(self.task, completed=done, note=visible(f"{note}{self._remaining_time(share)}"))
        elif time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            of = "" if self.total is None else f" of {self.total}"
            self.log(f"{self.what}: {done}{of}{f', {note}' if note else ''}{self._remaining_time(share)}")

    def _remaining_time(self, share: float | None) -> str:
        if share is None or self.first is None or not self.first < share < 1:
            return ""
        seconds = (time.monotonic() - self.begin) / (share - self.first) * (1 - share)
        return f", about {duration(seconds)} left"

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
