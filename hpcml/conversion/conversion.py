"""A conversion under way: its inputs and options, what it uses of another dataset (--like), lines and names in its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from hpcml import mpi
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.records import BadRecords, EnoughBadRecords
from hpcml.conversion.vocabulary import TextSettings
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError, OptionError, nearest
from hpcml.files.lines import BLOCK_BYTES, LINE_MIB, line_blocks, lines_before, read_lines
from hpcml.files.opening import read_small
from hpcml.log import Log
from hpcml.model.open import kind_of, open_model, require_raw_input
from hpcml.model.raw_input import RawInput
from hpcml.partition import bounds_by_weight, offsets, share_of

LONGEST_NAME = 1 << 16  # bytes
PAIR = "the old and the new name of a label, with a tab between"


@dataclass
class Like:
    """The parts of another dataset, or of a model, that a conversion uses again."""

    path: Path
    n_features: int
    label_names: list[str]
    text: TextSettings | None  # None: it was not made from text
    feature_names: list[str] | None
    label_titles: list[str] | None
    new_labels: bool  # labels that it lacks become labels, too
    renamed: dict[str, str] = field(default_factory=dict)  # the old names of labels -> those that they have in `label_names`

    def titles(self, size: int) -> list[str] | None:
        """The titles of so many labels, of which the first are its own; None without any."""
        return None if self.label_titles is None else self.label_titles + [""] * (size - len(self.label_titles))


@dataclass(frozen=True)
class Conversion:
    """A conversion under way; messages call what it reads `what`.

    `made` is the name of rows that are made by a formula ("" for others). `is_text` None: rows may
    be text or numbers, whichever the --like file was made from.
    """

    comm: mpi.Comm
    source: str
    inputs: Sequence[Path]
    options: ConvertOptions
    log: Log
    what: object
    is_text: bool | None
    made: str = ""
    like: Like | None = None
    max_line: int = LINE_MIB << 20  # the longest line in bytes
    scratch: Path = Path()  # a folder for files without a name
    bad: BadRecords = field(default_factory=BadRecords)

    def share(self, n: int) -> tuple[int, int]:
        """This rank's even share of so many rows: begin, end."""
        return share_of(n, self.comm.rank, self.comm.size)

    def share_by_weight(self, weights: Sequence[int]) -> tuple[int, int]:
        """This rank's share of consecutive items: begin, end."""
        begin, end = bounds_by_weight(offsets(weights), self.comm.size)[self.comm.rank : self.comm.rank + 2].tolist()
        return begin, end


@contextmanager
def reading(task: Conversion) -> Iterator[None]:
    """Read records in the body, on each rank its own, then agree about `task.bad`. Collective, but not its body.

    Raises DataError, and as `mpi.agreed`.
    """
    fatal: DataError | OptionError | None = None
    with mpi.agreed(task.comm, f"reading {task.what}"):
        try:
            yield
        except EnoughBadRecords:
            pass
        except (DataError, OptionError) as error:
            fatal = error
    task.bad.conclude(task.comm, task.what, fatal, task.log)


@dataclass
class Block:
    """Lines of a file from byte `offset` on."""

    path: Path
    offset: int

    @cached_property
    def n_above(self) -> int:
        """The number of lines above it."""
        return lines_before(self.path, self.offset)


class Place(NamedTuple):
    """A line: of a block, and of this rank's lines; both from 0."""

    block: Block
    in_block: int
    of_rank: int

    def __str__(self) -> str:
        return f"{self.block.path}: line {self.block.n_above + self.in_block + 1}"


def lines_of(task: Conversion, path: Path, begin: int, end: int, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[Place, bytes]]:
    """The lines that start in bytes begin..end of a file. Raises DataError, OSError."""
    of_rank = 0
    for offset, lines in line_blocks(path, begin, end, block_bytes, task.max_line):
        block = Block(path, offset)
        for in_block, line in enumerate(BytesIO(lines)):
            yield Place(block, in_block, of_rank), line
            of_rank += 1


@contextmanager
def placed(place: object) -> Iterator[None]:
    """What is wrong, a ValueError, becomes a DataError that names the place."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"{place}: {error}") from None


def read_like(path: Path, task: Conversion) -> Like:
    """Return what a conversion takes from a dataset, or from a model or its run. Local; raises ConfigError or DataError."""
    if path.is_dir() or kind_of(path) in ("model", "classifier"):
        model = open_model(path)
        labels, titles, n_features = model.label_names, model.label_titles, model.n_features
        found = require_raw_input(model)
    else:
        with DataFile(path) as dataset:
            labels, titles, n_features = dataset.label_names(), dataset.label_titles(), dataset.n_features
            found = RawInput.of_dataset(dataset)
    if task.is_text not in (None, found.is_text):
        made = "text" if found.is_text else "numbers, not from text"
        raise ConfigError(
            f"--like {path}: was made from {made}, so {task.source} cannot use its features; expected a file from {task.source}"
        )
    settings, names = (TextSettings.of(found, path), None) if found.is_text else (None, found.names)
    renamed = read_renames(task.options.renamed, labels, path)
    labels = [renamed.get(name, name) for name in labels]
    return Like(path, n_features, labels, settings, names, titles, task.options.new_labels, renamed)


def read_renames(renamed: Sequence[str], known: Sequence[str], like: Path) -> dict[str, str]:
    """The new names of labels of `like` by the old ones. Local.

    Raises ConfigError unless every old name is known, every new one is not, and no name stands
    there twice; DataError for a file that cannot be read.
    """
    pairs: dict[str, str] = {}
    there, taken = set(known), set[str]()
    for where, text, sign, expected in [line for value in renamed for line in _lines_of(value)]:
        names = [part.strip() for part in text.split(sign)]
        if len(names) != 2 or not all(names):
            raise ConfigError(f"{where}: expected {expected}")
        old, new = names
        if old in pairs or old in taken or new in pairs or new in taken:
            twice = old if old in pairs or old in taken else new
            raise ConfigError(f"{where}: {twice!r} stands in two renames; say for each label once what it was and what it is now")
        if old not in there:
            raise ConfigError(f"{where}: {like} has no label {old!r}; {nearest(old, list(known), 'hpcml info')}")
        if new in there:
            raise ConfigError(f"{where}: {like} has a label {new!r} already; leave it out, and give the documents this label")
        pairs[old] = new
        taken.add(new)
    return pairs


def _lines_of(value: str) -> list[tuple[str, str, str, str]]:
    """(where, text, sign between the names, what is expected) of each rename in a value of --renamed."""
    if "=" in value:
        return [(f"--renamed {value}", value, "=", "OLD=NEW, or a file for names with =")]
    lines = enumerate(read_small(Path(value)).splitlines(), 1)
    found = [(f"{value}: line {number}", line, "\t", PAIR) for number, line in lines if line.strip()]
    if not found:
        raise DataError(f"{value}: no names; expected on each line {PAIR}")
    return found


def read_names(comm: mpi.Comm, path: Path | None, size: int, what: str) -> list[str] | None:
    """Return the `size` names in a file, one a line; None without a file. Collective over `comm`; raises DataError."""
    if path is None:
        return None

    def read() -> list[str]:
        names: list[str] = []
        for number, line in read_lines(path, LONGEST_NAME, "; expected a name"):
            name = line.strip()
            if not name or "\0" in name:
                raise DataError(f"{path}: line {number}: {'a NUL in' if name else 'no'} name; expected one on every line")
            names.append(name)
        if len(names) != size:
            raise DataError(f"{path}: {len(names)} names, but there are {size} {what}; expected one a line")
        return names

    return mpi.run_on_root(comm, f"reading {path}", read)


def check_matrix_labels(what: object, options: ConvertOptions) -> None:
    """Raise ConfigError for options that have no effect if a matrix holds the labels."""
    for name in ("empty_labels", "label_separator", "labels_as_text"):
        if value := getattr(options, name):
            raise OptionError(name, value, f"has no effect, because {what} is a matrix of the labels; remove it")
