"""A study: the commands that make the numbers of one exhibit, each run once, in one folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hpcml import mpi
from hpcml.errors import Interrupted
from hpcml.files.atomic import write_json
from hpcml.files.table import read_csv
from hpcml.log import plural
from hpcml.papers.corpora import CORPORA, MADE, QUICK, TEST_SHARE, copy_lines, file_of, n_lines
from hpcml.papers.exhibit import Exhibit
from hpcml.run.session import Session

Command = Callable[[Sequence[str]], None]  # runs `hpcml WORDS…` on all ranks; collective
STEPS = "steps.json"
OUTPUTS = ("-o", "--output", "--json", "--csv")
T = TypeVar("T")


def flags(name: str, values: Iterable[object]) -> list[str]:
    """The words of an option that is given for each of some values."""
    return [word for value in values for word in (name, str(value))]


class PaperRows(NamedTuple):
    """A dataset: the file with the training rows (split train), and that with the test rows."""

    name: str
    train: Path
    test: Path


class PaperStudy:
    """What makes an exhibit's numbers. All methods are collective over the session's ranks.

    folder: where all of it lies; quick: on small made rows, to see that it works; given: datasets
    that the user named instead of the paper's; anew: what lies there is replaced, not continued.
    """

    def __init__(
        self, session: Session, exhibit: Exhibit, folder: Path, command: Command, *, quick: bool, given: Sequence[Path], anew: bool
    ) -> None:
        self.session, self.exhibit, self.folder, self.quick, self.given = session, exhibit, folder, quick, given
        self._command, self._anew = command, anew
        self.used: list[str] = []  # names of the data
        self.steps: dict[str, float] = self.read(folder / STEPS) if self.root((folder / STEPS).exists) else {}

    def root(self, call: Callable[..., T], *content: object) -> T:
        """What a call gives that is made on rank 0 alone, on all ranks."""
        return mpi.run_on_root(self.session.comm, f"working in {self.folder}", partial(call, *content))

    def read(self, path: Path) -> Any:
        """The content of a JSON file."""
        return self.root(lambda: json.loads(path.read_text(encoding="utf-8")))

    def lines(self, path: Path) -> list[dict[str, str]]:
        """The lines of a CSV file."""
        return self.root(read_csv, path)

    def once(self, step: str, call: Callable[[], object], says: str = "") -> float:
        """Make a collective call, if that was not done before; the seconds that it took. Raises
        what it raises, and Interrupted after a signal.
        """
        comm = self.session.comm
        if step not in self.steps:
            if mpi.agreed_any(comm, self.session.signals.seen):
                raise Interrupted(f"a signal arrived: {len(self.steps)} commands are done; continue with --resume")
            self.session.log(says or step)
            began = time.monotonic()
            call()
            self.steps[step] = comm.bcast(time.monotonic() - began)
            self.root(write_json, self.folder / STEPS, self.steps)
        return self.steps[step]

    def run(self, *words: object) -> float:
        """Run `hpcml WORDS…` once. What an earlier study has left there is continued, if it is a
        folder, or replaced.
        """
        tokens = [str(word) for word in words]
        step = " ".join(token.removeprefix(f"{self.folder}/") for token in tokens)
        return self.once(step, lambda: self._command([*tokens, *self._again(tokens)]), f"hpcml {step}")

    def _again(self, tokens: Sequence[str]) -> list[str]:
        """The option for what is there already."""
        output = next((Path(value) for flag, value in pairwise(tokens) if flag in OUTPUTS), None)
        if output is None or "--force" in tokens or not self.root(output.exists):
            return []
        resumes = not self._anew and tokens[0] in ("train", "tune", "compare") and self.root(output.is_dir)
        return ["--resume" if resumes else "--force"]

    def kept(self, name: str, *calls: Callable[[], Any]) -> Any:
        """What each of some local calls finds, as JSON has it. They are divided among the ranks,
        and made once: what they find is kept in NAME.json.
        """
        path, comm = self.folder / f"{name}.json", self.session.comm

        def make() -> None:
            with mpi.agreed(comm, name, sleep=True):
                own = [call() for call in calls[comm.rank :: comm.size]]
            parts = comm.allgather(own)
            found = [parts[number % comm.size][number // comm.size] for number in range(len(calls))]
            self.root(write_json, path, found)

        self.once(name, make, f"{name}: {plural(len(calls), 'task')}")
        return self.read(path)

    def picture(self, draw: Callable[..., None], *content: object) -> Path:
        """The exhibit's picture, as `draw` makes it on rank 0."""
        path = self.folder / f"{self.exhibit.name}.png"
        self.root(draw, path, *content)
        return path

    def datasets(self, *options: str, text: Sequence[str] = (), most: int | None = None) -> Iterator[PaperRows]:
        """The datasets, one by one: those given; else the exhibit's corpora; else made ones.

        options: more arguments of `convert` for corpora and made rows. text: for corpora of texts
        alone. most: take so many rows of a corpus (.svm.xz), see `sample`.
        """
        corpora = self.at_hand()
        for path in self.given:
            yield self._used(PaperRows(path.stem, path, path))
        for name in corpora:
            yield self._used(self.corpus(name, *options, *(text if CORPORA[name].source == "jsonl" else ()), most=most))
        if not (self.given or corpora):
            yield self._used(self.made(*options))

    def at_hand(self) -> list[str]:
        """The exhibit's corpora that are there; none if other rows are wanted."""
        names = () if self.given or self.quick else self.exhibit.corpora
        return self.root(lambda: [name for name in names if file_of(CORPORA[name].file).is_file()])

    def _used(self, rows: PaperRows) -> PaperRows:
        self.used += [rows.name] * (rows.name not in self.used)
        return rows

    def prefix(self, name: str) -> str:
        """What begins the rows of a dataset, where the user has named several."""
        return f"{name}, " if len(self.given) > 1 else ""

    def converted(self, stem: str, *words: object) -> Path:
        """The dataset that `hpcml convert WORDS…` makes."""
        path = self.folder / f"{stem}.h5"
        self.run("convert", *words, "-o", path)
        return path

    def made(self, *options: str) -> PaperRows:
        """Rows of the exhibit's kind that are made on this machine."""
        path = self.converted("made", *(QUICK if self.quick else MADE)[self.exhibit.kind], *options)
        return PaperRows(f"made {self.exhibit.kind}", path, path)

    def corpus(self, name: str, *options: str, most: int | None = None) -> PaperRows:
        """A corpus of `corpora.CORPORA`, converted. It must be there (`at_hand`)."""
        corpus, source = CORPORA[name], file_of(CORPORA[name].file)
        share = () if corpus.test or corpus.has_splits or "--test-share" in options else ("--test-share", TEST_SHARE)
        path = self.converted(name, corpus.source, source if most is None else self.sample(source, most), *share, *options)
        if not corpus.test or most is not None:
            return PaperRows(corpus.name, path, path)
        test = self.converted(f"{name}.test", corpus.source, file_of(corpus.test), "--like", path)
        return PaperRows(corpus.name, path, test)

    def sample(self, source: Path, most: int) -> Path:
        """A file with so many lines of a file (.xz), drawn at random, the same each time."""
        path = self.folder / f"{source.name.partition('.')[0]}-{most}.svm"

        def draw() -> int:
            return copy_lines(source, np.random.default_rng(0).permutation(n_lines(source))[:most], path)

        self.kept(f"{path.stem}.lines", draw)
        return path

    def measures(self, model: Path, data: Path, *split: str) -> Any:
        """What `hpcml evaluate` finds for a model or a run: on a split, or on the test rows."""
        path = self.folder / f"{'-'.join((model.name.removesuffix('.h5'), *split))}.json"
        self.run("evaluate", model, data, *flags("--split", split), "--json", path)
        return self.read(path)
