"""A study: the commands that compute the numbers of one exhibit, each run once as a subprocess, in one folder."""

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
from launch.lab.core.corpora import CORPORA, QUICK, SYNTHETIC, TEST_SHARE, copy_lines, file_of, n_lines
from launch.lab.core.exhibit import Exhibit, Paper
from launch.lab.core.outcome import Outcome, judged, text, write
from launch.lab.core.tables import plural, read_json, write_json
from launch.lab.core.timing import Usage, made_on, run_hpcml

STEPS = "steps.json"
MARK = "paper.json"  # in a study's folder: its exhibit and data
LOG = "messages.log"  # in a study's folder: the messages of its commands
OUTPUTS = ("-o", "--output", "--json", "--csv")


def flags(name: str, values: Iterable[object]) -> list[str]:
    return [word for value in values for word in (name, str(value))]


def safe(label: str) -> str:
    """Return a label as part of a file name: letters, digits, `_`, `.`, `-`; at most 100 bytes."""
    return re.sub(r"[^\w.-]+", "_", label).encode(errors="replace")[:100].decode(errors="ignore")


class PaperRows(NamedTuple):
    """A dataset: the file with the training rows (split train), and the file with the test rows."""

    name: str
    train: Path
    test: Path


class PaperStudy:
    """The work on one exhibit.

    folder: holds all files. quick: use small synthetic rows; claims are not judged. user_data: datasets that replace those of the
    paper. anew: replace the content of the folder. ranks: MPI ranks of each command.
    """

    def __init__(
        self,
        exhibit: Exhibit,
        folder: Path,
        *,
        quick: bool = False,
        user_data: Sequence[Path] = (),
        anew: bool = False,
        ranks: int = 1,
    ) -> None:
        self.exhibit, self.folder, self.quick, self.user_data, self.ranks = exhibit, folder, quick, user_data, ranks
        self._anew = anew
        self.used: list[str] = []  # names of the data
        path = folder / STEPS
        self.steps: dict[str, list[float]] = read_json(path) if path.exists() else {}  # by step: the fields of Usage

    def once(self, step: str, call: Callable[[], Usage | object], title: str = "") -> Usage:
        """Make a call unless an earlier start made it, and return its usage. Calls other than commands are timed by the clock."""
        if step not in self.steps:
            print(title or step, file=sys.stderr, flush=True)
            began, cpu = time.monotonic(), time.process_time()
            result = call()
            if not isinstance(result, Usage):
                result = Usage(time.monotonic() - began, time.process_time() - cpu, 0.0)
            self.steps[step] = list(result[:3])
            write_json(self.folder / STEPS, self.steps)
        return Usage(*self.steps[step])

    def run(self, *words: object, ranks: int | None = None, timeout: float | None = None) -> Usage:
        """Run `hpcml WORDS…` once on the ranks of the study. An interrupted training is resumed; other outputs are replaced."""
        tokens, n = [str(word) for word in words], ranks or self.ranks
        step = " ".join(token.removeprefix(f"{self.folder}/") for token in tokens) + f" (on {n} ranks)" * (n != self.ranks)
        log = self.folder / LOG
        return self.once(step, lambda: run_hpcml(*tokens, *self._again(tokens), ranks=n, timeout=timeout, log=log), f"hpcml {step}")

    def _again(self, tokens: Sequence[str]) -> list[str]:
        """Return --resume or --force if the output exists."""
        output = next((Path(value) for flag, value in pairwise(tokens) if flag in OUTPUTS), None)
        if output is None or "--force" in tokens or not output.exists():
            return []
        resumes = not self._anew and tokens[0] in ("train", "tune") and output.is_dir()
        return ["--resume" if resumes else "--force"]

    def compute_once(self, name: str, *calls: Callable[[], Any]) -> Any:
        """Return the results of calls as JSON values; they are computed once and stored in NAME.json.

        With several ranks the calls run in as many processes; they must then be picklable (a function of a module, or `partial`
        of one).
        """
        path = self.folder / f"{name}.json"

        def make() -> None:
            if self.ranks == 1 or len(calls) == 1:
                result = [call() for call in calls]
            else:
                with multiprocessing.get_context("spawn").Pool(min(self.ranks, len(calls)), _ignore_interrupts) as pool:
                    result = pool.map_async(_called, calls, chunksize=1).get()
            write_json(path, result)

        self.once(name, make, f"{name}: {plural(len(calls), 'task')}")
        return read_json(path)

    def picture(self, draw: Callable[..., None], *content: object) -> Path:
        path = self.folder / f"{self.exhibit.name}.png"
        draw(path, *content)
        return path

    def datasets(self, *options: str, text: Sequence[str] = (), most: int | None = None) -> Iterator[PaperRows]:
        """Yield the datasets: those of the user, else the available corpora of the exhibit, else synthetic rows.

        options: further arguments of `convert` for corpora and synthetic rows. text: the same for text corpora only. most: the
        number of rows to sample from a corpus in a .svm.xz file (`sample`).
        """
        corpora = self.available_corpora()
        for path in self.user_data:
            yield self._used(PaperRows(path.stem, path, path))
        for name in corpora:
            yield self._used(self.corpus(name, *options, *(text if CORPORA[name].source == "jsonl" else ()), most=most))
        if not (self.user_data or corpora):
            yield self._used(self.make_rows(*options))

    def available_corpora(self) -> list[str]:
        """Return the corpora of the exhibit that exist; none in the quick form or with data of the user."""
        names = () if self.user_data or self.quick else self.exhibit.corpora
        return [name for name in names if file_of(CORPORA[name].file).is_file()]

    def _used(self, rows: PaperRows) -> PaperRows:
        self.used += [rows.name] * (rows.name not in self.used)
        return rows

    def prefix(self, name: str) -> str:
        """Return the prefix of the row names of a dataset: empty unless the user named several datasets."""
        return f"{name}, " if len(self.user_data) > 1 else ""

    def converted(self, stem: str, *words: object) -> Path:
        path = self.folder / f"{stem}.h5"
        self.run("convert", *words, "-o", path)
        return path

    def make_rows(self, *options: str) -> PaperRows:
        path = self.converted("made", *(QUICK if self.quick else SYNTHETIC)[self.exhibit.kind], *options)
        return PaperRows(f"made {self.exhibit.kind}", path, path)

    def corpus(self, name: str, *options: str, most: int | None = None) -> PaperRows:
        corpus, source = CORPORA[name], file_of(CORPORA[name].file)
        share = () if corpus.test or corpus.has_splits or "--test-share" in options else ("--test-share", TEST_SHARE)
        path = self.converted(name, corpus.source, source if most is None else self.sample(source, most), *share, *options)
        if not corpus.test or most is not None:
            return PaperRows(corpus.name, path, path)
        test = self.converted(f"{name}.test", corpus.source, file_of(corpus.test), "--like", path)
        return PaperRows(corpus.name, path, test)

    def sample(self, source: Path, most: int) -> Path:
        """Write `most` random lines of a file (.xz) to a file, always the same ones, and return its path."""
        path = self.folder / f"{source.name.partition('.')[0]}-{most}.svm"

        def draw() -> int:
            return copy_lines(source, np.random.default_rng(0).permutation(n_lines(source))[:most], path)

        self.compute_once(f"{path.stem}.lines", draw)
        return path

    def measures(self, model: Path, data: Path, *split: str) -> Any:
        """Return the measures of `hpcml evaluate` for a model or a run, on a split or on the test rows."""
        path = self.folder / f"{'-'.join((model.name.removesuffix('.h5'), *split))}.json"
        self.run("evaluate", model, data, *flags("--split", split), "--json", path)
        return read_json(path)


def _called(call: Callable[[], Any]) -> Any:
    return call()


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C; the parent process ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def make(
    paper: Paper,
    exhibit: Exhibit,
    folder: Path,
    *,
    user_data: Sequence[Path] = (),
    quick: bool = False,
    resume: bool = False,
    force: bool = False,
    ranks: int = 1,
) -> str:
    """Compute the numbers of an exhibit in a folder, write the outcome there, and return the text to print.

    Raises ConfigError for invalid options, Interrupted after a signal, and CommandError for a command that failed.
    """
    if exhibit.make is None:
        raise ConfigError(f"{paper.name} {exhibit.name} cannot be computed: {exhibit.lacks}")
    if quick and user_data:
        raise ConfigError("--quick generates its own rows; remove --quick or the datasets")
    if user_data and not exhibit.kind:
        raise ConfigError(f"{paper.name} {exhibit.name} uses no data; remove the datasets")
    mark = {"paper": paper.name, "exhibit": exhibit.name, "quick": quick, "data": [str(path.resolve()) for path in user_data]}
    open_folder(folder, mark, resume, force)
    study = PaperStudy(exhibit, folder, quick=quick, user_data=user_data, anew=force, ranks=ranks)
    try:
        finding = exhibit.make(study)
    except Interrupted as error:
        raise Interrupted(f"{error}; {plural(len(study.steps), 'command')} done; continue with --resume") from None
    words = ("python -m launch.lab paper", paper.name, exhibit.name, *(path.name for path in user_data), *["--quick"] * quick)
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
    """Create or continue the folder of a study. Raises ConfigError."""
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
