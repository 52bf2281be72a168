"""A study: the commands that make the numbers of one exhibit, each run once as a subprocess, in one folder."""

from __future__ import annotations

import multiprocessing
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml.errors import ConfigError, Interrupted
from launch.lab.core.corpora import CORPORA, MADE, QUICK, TEST_SHARE, copy_lines, file_of, n_lines
from launch.lab.core.exhibit import Exhibit, Paper
from launch.lab.core.outcome import Outcome, judged, text, write
from launch.lab.core.tables import plural, read_json, write_json
from launch.lab.core.timing import Usage, made_on, run_hpcml

STEPS = "steps.json"
MARK = "paper.json"  # in a study's folder: its exhibit and data
LOG = "messages.log"  # in a study's folder: the messages of its commands
OUTPUTS = ("-o", "--output", "--json", "--csv")


def flags(name: str, values: Iterable[object]) -> list[str]:
    """Return the words of an option that is given once for each value."""
    return [word for value in values for word in (name, str(value))]


def safe(label: str) -> str:
    """Return a label as a part of a file's name: letters, digits, `_`, `.`, `-`; at most 100 bytes."""
    return re.sub(r"[^\w.-]+", "_", label).encode(errors="replace")[:100].decode(errors="ignore")


class PaperRows(NamedTuple):
    """A dataset: the file with the training rows (split train), and that with the test rows."""

    name: str
    train: Path
    test: Path


class PaperStudy:
    """The work on one exhibit.

    folder: holds all files; quick: use small made rows, only to see that it works; given: datasets of the user, in place of the
    paper's; anew: replace what is in the folder; ranks: the MPI ranks of each command.
    """

    def __init__(
        self, exhibit: Exhibit, folder: Path, *, quick: bool = False, given: Sequence[Path] = (), anew: bool = False, ranks: int = 1
    ) -> None:
        self.exhibit, self.folder, self.quick, self.given, self.ranks = exhibit, folder, quick, given, ranks
        self._anew = anew
        self.used: list[str] = []  # names of the data
        path = folder / STEPS
        self.steps: dict[str, list[float]] = read_json(path) if path.exists() else {}  # by step: the fields of Usage

    def once(self, step: str, call: Callable[[], Usage | object], title: str = "") -> Usage:
        """Make a call, if it was not made before, and return what it took. A call that is no command is timed by the clock."""
        if step not in self.steps:
            print(title or step, file=sys.stderr, flush=True)
            began, cpu = time.monotonic(), time.process_time()
            found = call()
            if not isinstance(found, Usage):
                found = Usage(time.monotonic() - began, time.process_time() - cpu, 0.0)
            self.steps[step] = list(found[:3])
            write_json(self.folder / STEPS, self.steps)
        return Usage(*self.steps[step])

    def run(self, *words: object, ranks: int | None = None, timeout: float | None = None) -> Usage:
        """Run `hpcml WORDS…` once, on the study's ranks. An interrupted training is resumed, another output is replaced."""
        tokens, n = [str(word) for word in words], ranks or self.ranks
        step = " ".join(token.removeprefix(f"{self.folder}/") for token in tokens) + f" (on {n} ranks)" * (n != self.ranks)
        log = self.folder / LOG
        return self.once(step, lambda: run_hpcml(*tokens, *self._again(tokens), ranks=n, timeout=timeout, log=log), f"hpcml {step}")

    def _again(self, tokens: Sequence[str]) -> list[str]:
        """Return the option for an output that is there already."""
        output = next((Path(value) for flag, value in pairwise(tokens) if flag in OUTPUTS), None)
        if output is None or "--force" in tokens or not output.exists():
            return []
        resumes = not self._anew and tokens[0] in ("train", "tune") and output.is_dir()
        return ["--resume" if resumes else "--force"]

    def kept(self, name: str, *calls: Callable[[], Any]) -> Any:
        """Return the results of some calls, as JSON has them. They are made once and kept in NAME.json.

        With several ranks they are divided among as many processes; a call must then be picklable (a function of a module, or
        `partial` of one).
        """
        path = self.folder / f"{name}.json"

        def make() -> None:
            if self.ranks == 1 or len(calls) == 1:
                found = [call() for call in calls]
            else:
                with multiprocessing.get_context("spawn").Pool(min(self.ranks, len(calls)), _ignore_interrupts) as pool:
                    found = pool.map_async(_called, calls, chunksize=1).get()
            write_json(path, found)

        self.once(name, make, f"{name}: {plural(len(calls), 'task')}")
        return read_json(path)

    def picture(self, draw: Callable[..., None], *content: object) -> Path:
        """Draw the exhibit's picture by `draw(path, *content)` and return its path."""
        path = self.folder / f"{self.exhibit.name}.png"
        draw(path, *content)
        return path

    def datasets(self, *options: str, text: Sequence[str] = (), most: int | None = None) -> Iterator[PaperRows]:
        """Yield the datasets: those given; else the exhibit's corpora that are there; else made rows.

        options: more arguments of `convert` for corpora and made rows. text: for corpora of texts alone. most: the number of
        rows to sample of a corpus in a .svm.xz file (`sample`).
        """
        corpora = self.at_hand()
        for path in self.given:
            yield self._used(PaperRows(path.stem, path, path))
        for name in corpora:
            yield self._used(self.corpus(name, *options, *(text if CORPORA[name].source == "jsonl" else ()), most=most))
        if not (self.given or corpora):
            yield self._used(self.made(*options))

    def at_hand(self) -> list[str]:
        """Return the exhibit's corpora that are there; none if other rows are wanted."""
        names = () if self.given or self.quick else self.exhibit.corpora
        return [name for name in names if file_of(CORPORA[name].file).is_file()]

    def _used(self, rows: PaperRows) -> PaperRows:
        self.used += [rows.name] * (rows.name not in self.used)
        return rows

    def prefix(self, name: str) -> str:
        """Return the beginning of a dataset's row names: empty unless the user named several datasets."""
        return f"{name}, " if len(self.given) > 1 else ""

    def converted(self, stem: str, *words: object) -> Path:
        """Make a dataset by `hpcml convert WORDS…` and return its path."""
        path = self.folder / f"{stem}.h5"
        self.run("convert", *words, "-o", path)
        return path

    def made(self, *options: str) -> PaperRows:
        """Make rows of the exhibit's kind."""
        path = self.converted("made", *(QUICK if self.quick else MADE)[self.exhibit.kind], *options)
        return PaperRows(f"made {self.exhibit.kind}", path, path)

    def corpus(self, name: str, *options: str, most: int | None = None) -> PaperRows:
        """Convert a corpus of `corpora.CORPORA`, which must be there (`at_hand`)."""
        corpus, source = CORPORA[name], file_of(CORPORA[name].file)
        share = () if corpus.test or corpus.has_splits or "--test-share" in options else ("--test-share", TEST_SHARE)
        path = self.converted(name, corpus.source, source if most is None else self.sample(source, most), *share, *options)
        if not corpus.test or most is not None:
            return PaperRows(corpus.name, path, path)
        test = self.converted(f"{name}.test", corpus.source, file_of(corpus.test), "--like", path)
        return PaperRows(corpus.name, path, test)

    def sample(self, source: Path, most: int) -> Path:
        """Write `most` random lines of a file (.xz) to a file, the same ones each time, and return its path."""
        path = self.folder / f"{source.name.partition('.')[0]}-{most}.svm"

        def draw() -> int:
            return copy_lines(source, np.random.default_rng(0).permutation(n_lines(source))[:most], path)

        self.kept(f"{path.stem}.lines", draw)
        return path

    def measures(self, model: Path, data: Path, *split: str) -> Any:
        """Return the measures of `hpcml evaluate` for a model or a run: on a split, or on the test rows."""
        path = self.folder / f"{'-'.join((model.name.removesuffix('.h5'), *split))}.json"
        self.run("evaluate", model, data, *flags("--split", split), "--json", path)
        return read_json(path)


def _called(call: Callable[[], Any]) -> Any:
    return call()


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent process, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def make(
    paper: Paper,
    exhibit: Exhibit,
    folder: Path,
    *,
    given: Sequence[Path] = (),
    quick: bool = False,
    resume: bool = False,
    force: bool = False,
    ranks: int = 1,
) -> str:
    """Make the numbers of an exhibit in a folder, write the outcome there, and return the text to print.

    Raises ConfigError for options that do not fit, Interrupted after a signal, and CommandError for a command that failed.
    """
    if exhibit.make is None:
        raise ConfigError(f"{paper.name} {exhibit.name} cannot be made: {exhibit.lacks}")
    if quick and given:
        raise ConfigError("--quick makes small rows of its own; remove --quick or the data")
    if given and not exhibit.kind:
        raise ConfigError(f"{paper.name} {exhibit.name} takes no data")
    mark = {"paper": paper.name, "exhibit": exhibit.name, "quick": quick, "data": [str(path.resolve()) for path in given]}
    open_folder(folder, mark, resume, force)
    study = PaperStudy(exhibit, folder, quick=quick, given=given, anew=force, ranks=ranks)
    try:
        finding = exhibit.make(study)
    except Interrupted as error:
        raise Interrupted(f"{error}; {plural(len(study.steps), 'command')} done; continue with --resume") from None
    words = ("python -m launch.lab paper", paper.name, exhibit.name, *(path.name for path in given), *["--quick"] * quick)
    outcome = Outcome(
        paper=paper.name,
        exhibit=exhibit.name,
        command=" ".join(words),
        data=study.used,
        quick=quick,
        ranks=ranks,
        seconds=round(sum(step[0] for step in study.steps.values()), 1),
        numbers=finding.numbers,
        published=paper.published(exhibit.name),
        claims=judged(exhibit.claims, finding, quick),
        notes=list(finding.notes),
        made_on=made_on(),
    )
    write(folder, outcome)
    return text(outcome, paper, exhibit)


def open_folder(folder: Path, mark: dict[str, object], resume: bool, force: bool) -> None:
    """Begin a study's folder, or continue it. Raises ConfigError."""
    file = folder / MARK
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; -o must name a folder")
    if folder.is_dir() and any(folder.iterdir()):
        before = read_json(file) if file.is_file() else None
        if before is None:
            raise ConfigError(f"{folder} is not empty and holds no study; name a new folder")
        if not (resume or force):
            raise ConfigError(f"{folder} holds a study already; continue it with --resume, or start again with --force")
        if resume and before != mark:
            raise ConfigError(f"{folder} is a study of {before['paper']} {before['exhibit']} on other data or in another form")
        if force:
            (folder / STEPS).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(file, mark)
