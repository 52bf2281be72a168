"""A study: the commands that make the numbers of one exhibit, each run once, in one folder."""

from __future__ import annotations

import json
import lzma
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.errors import Interrupted
from hpcml.files.atomic import write_json, write_whole
from hpcml.files.table import read_csv
from hpcml.log import plural
from hpcml.papers.corpora import CORPORA, MADE, QUICK, TEST_SHARE, file_of
from hpcml.papers.exhibit import Exhibit
from hpcml.run.session import Session

Command = Callable[[Sequence[str]], None]  # runs `hpcml WORDS…` on all ranks; collective
STEPS = "steps.json"
OUTPUTS = ("-o", "--output", "--json", "--csv")


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
        self.steps: dict[str, float] = self.read(folder / STEPS) if self.root(lambda: (folder / STEPS).exists()) else {}

    def root(self, call: Callable[[], Any]) -> Any:
        """What a call on rank 0 gives, on all ranks."""
        comm, found = self.session.comm, None
        with mpi.agreed(comm, f"reading {self.folder}"):
            if comm.rank == 0:
                found = call()
        return comm.bcast(found)

    def read(self, path: Path) -> Any:
        """The content of a JSON file."""
        return self.root(lambda: json.loads(path.read_text(encoding="utf-8")))

    def table(self, path: Path, key: str) -> dict[str, dict[str, str]]:
        """The lines of a CSV file, by one of their columns."""
        return {line[key]: line for line in self.lines(path)}

    def lines(self, path: Path) -> list[dict[str, str]]:
        """The lines of a CSV file."""
        found: list[dict[str, str]] = self.root(partial(read_csv, path))
        return found

    def run(self, *words: object) -> float:
        """Run `hpcml WORDS…`, if that was not done before; the seconds that it took.

        What an earlier study has left there is continued, if it is a folder, or replaced. Raises
        what the command raises, and Interrupted after a signal.
        """
        tokens = [str(word) for word in words]
        step = " ".join(token.removeprefix(f"{self.folder}/") for token in tokens)
        if step in self.steps:
            return self.steps[step]
        self._look()
        session = self.session
        output = next((Path(value) for flag, value in pairwise(tokens) if flag in OUTPUTS), None)
        if output is not None and self.root(output.exists):
            resumes = not self._anew and tokens[0] in ("train", "tune", "compare") and self.root(output.is_dir)
            tokens += ["--resume" if resumes else "--force"] * ("--force" not in tokens)
        session.log(f"hpcml {step}")
        began = time.monotonic()
        self._command(tokens)
        return self._note(step, began)

    def kept(self, name: str, call: Callable[[Any], Any], tasks: Sequence[Any] = (None,)) -> list[Any]:
        """What a local `call` finds for each task, as JSON has it; the tasks are divided among the
        ranks, and what they find is kept in NAME.json, so that it is found once.
        """
        path, comm = self.folder / f"{name}.json", self.session.comm
        if name not in self.steps:
            self._look()
            self.session.log(f"{name}: {plural(len(tasks), 'task')}")
            began, own = time.monotonic(), {}
            with mpi.resting(comm, name):
                for number in range(comm.rank, len(tasks), comm.size):
                    own[number] = call(tasks[number])
            found = {number: each for part in comm.allgather(own) for number, each in part.items()}
            with mpi.agreed(comm, f"writing {path}"):
                if comm.rank == 0:
                    write_json(path, [found[number] for number in range(len(tasks))])
            self._note(name, began)
        kept: list[Any] = self.read(path)
        return kept

    def once(self, step: str, call: Callable[[], None]) -> float:
        """Make a collective call, if that was not done before; the seconds that it took. Raises
        what it raises, and Interrupted after a signal.
        """
        if step in self.steps:
            return self.steps[step]
        self._look()
        self.session.log(step)
        began = time.monotonic()
        call()
        return self._note(step, began)

    def _look(self) -> None:
        """Raise Interrupted, on all ranks, after a signal."""
        if mpi.agreed_any(self.session.comm, self.session.signals.seen):
            raise Interrupted(f"a signal arrived: {len(self.steps)} commands are done; continue with --resume")

    def _note(self, step: str, began: float) -> float:
        """Note that a step is done; the seconds that it took."""
        comm = self.session.comm
        self.steps[step] = seconds = comm.bcast(time.monotonic() - began)
        with mpi.agreed(comm, f"writing {self.folder / STEPS}"):
            if comm.rank == 0:
                write_json(self.folder / STEPS, self.steps)
        return seconds

    def datasets(self, *options: str, text: Sequence[str] = (), most: int | None = None) -> Iterator[PaperRows]:
        """The datasets, one by one: those given; else the exhibit's corpora; else made ones.

        options: more arguments of `convert` for corpora and made rows. text: for corpora of texts
        alone. most: take so many rows of a corpus (.svm.xz), see `sample`.
        """
        found = 0
        for path in self.given:
            yield self._used(PaperRows(path.stem, path, path))
        for name in () if self.given or self.quick else self.exhibit.corpora:
            if self.root(partial(file_of, CORPORA[name].file)):
                found += 1
                yield self._used(self.corpus(name, *options, *(text if CORPORA[name].source == "jsonl" else ()), most=most))
        if not self.given and not found:
            yield self._used(self.made(*options))

    def _used(self, rows: PaperRows) -> PaperRows:
        self.used += [rows.name] * (rows.name not in self.used)
        return rows

    def made(self, *options: str) -> PaperRows:
        """Rows of the exhibit's kind that are made on this machine."""
        path = self.folder / "made.h5"
        self.run("convert", *(QUICK if self.quick else MADE)[self.exhibit.kind], "-o", path, *options)
        return PaperRows(f"made {self.exhibit.kind}", path, path)

    def corpus(self, name: str, *options: str, most: int | None = None) -> PaperRows:
        """A corpus of `corpora.CORPORA`, converted. It must be there (`corpora.file_of`)."""
        corpus, path = CORPORA[name], self.folder / f"{name}.h5"
        share = () if corpus.test or corpus.has_splits or "--test-share" in options else ("--test-share", TEST_SHARE)
        source = file_of(corpus.file)
        self.run("convert", corpus.source, source if most is None else self.sample(source, most), "-o", path, *share, *options)
        if not corpus.test or most is not None:
            return PaperRows(corpus.name, path, path)
        test = self.folder / f"{name}.test.h5"
        self.run("convert", corpus.source, file_of(corpus.test), "-o", test, "--like", path)
        return PaperRows(corpus.name, path, test)

    def sample(self, source: Path | None, most: int) -> Path:
        """A file with so many lines of a file (.xz), drawn at random, the same each time."""

        def draw(_: None) -> int:
            lines = lzma.decompress(source.read_bytes() if source else b"").splitlines(keepends=True)
            some = np.sort(np.random.default_rng(0).permutation(len(lines))[:most])
            write_whole(path, b"".join(lines[i] for i in some))
            return int(some.size)

        path = self.folder / f"{(source or Path()).name.partition('.')[0]}-{most}.svm"
        self.kept(f"{path.stem}.lines", draw)
        return path

    def measures(self, run: Path, rows: PaperRows) -> Any:
        """What `hpcml evaluate` finds for a run on the test rows."""
        path = run.with_name(f"{run.name}.json")
        self.run("evaluate", run / "model.h5", rows.test, "--json", path)
        return self.read(path)
