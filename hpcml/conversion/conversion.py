"""One conversion: its inputs, options and bad records, what it takes from the --like dataset, and helpers to read lines and names.

Reading continues after a bad record, so that one error lists the first bad records, or --skip-bad skips them. A rank stops when its
bad records fill the list and exceed --skip-bad. Ranks read consecutive parts of the input, and each rank counts bad records in
order, so the error does not depend on the number of ranks.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, TypeVar

from hpcml import mpi
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.vocabulary import TextSettings
from hpcml.data.dataset import DataFile
from hpcml.data.descriptors import Descriptors
from hpcml.errors import BadRecordsError, ConfigError, DataError, HpcmlError, OptionError, nearest
from hpcml.files.lines import BLOCK_BYTES, LINE_MIB, line_blocks, lines_before, read_lines
from hpcml.files.opening import read_small
from hpcml.log import Log, joined, plural
from hpcml.model.open import kind_of, open_model, require_raw_input
from hpcml.model.raw_input import RawInput
from hpcml.partition import bounds_by_weight, even_range, offsets

MAX_LISTED = 10  # bad records listed in errors and in the log

R = TypeVar("R")
T = TypeVar("T")
LONGEST_NAME = 1 << 16  # bytes
PAIR = "the old and the new name of a label, separated by a tab"


class EnoughBadRecords(Exception):
    """Raised when a rank has more bad records than are skipped or listed."""


class BadRecords:
    """The bad records of this rank. `with bad.at(location): ...` counts a ValueError or DataError of one record."""

    def __init__(self, most: int = 0, can_skip: bool = False) -> None:
        """At most `most` bad records of all ranks are skipped; `can_skip`: the source has the option --skip-bad."""
        self.most, self.can_skip, self.enough = most, can_skip, max(most + 1, MAX_LISTED)
        self.count, self.messages = 0, list[str]()
        self.skipped = 0  # on all ranks, after `conclude`

    @contextmanager
    def at(self, location: object) -> Iterator[None]:
        try:
            yield
        except DataError as error:
            self.add(error)
        except ValueError as error:
            self.add(error, location)

    def add(self, reason: object, location: object | None = None) -> None:
        self.count += 1
        if len(self.messages) < MAX_LISTED:
            self.messages.append(str(reason) if location is None else f"{location}: {reason}")
        if self.count >= self.enough:
            raise EnoughBadRecords

    def divided(self, records: Sequence[R], take: Callable[[Sequence[R]], T]) -> Iterator[T]:
        """Yield `take` of the records; after a DataError, of each half separately, down to single bad records."""
        pending = [records]
        while pending:
            part = pending.pop()
            try:
                result = take(part)
            except DataError as error:
                middle = len(part) // 2
                if middle:
                    pending += [part[middle:], part[:middle]]
                else:
                    self.add(error)
                continue
            yield result

    def conclude(self, comm: mpi.Comm, what: object, fatal: HpcmlError | None, log: Log) -> None:
        """`fatal`: the error that ended this rank's reading. Collective over `comm`."""
        count, messages = 0, list[str]()
        for rank_count, rank_messages, error in comm.allgather((self.count, self.messages, fatal)):
            count, messages = count + rank_count, (messages + rank_messages)[:MAX_LISTED]
            if count >= self.enough:
                break
            if error is not None:
                raise error
        self.skipped = count
        if count == 1 > self.most:
            raise DataError(messages[0])
        if count > self.most:
            count_text = f"{what}: {f'at least {self.enough}' if count >= self.enough else count} bad records"
            hint = "correct them, or use --skip-bad" if self.can_skip else "correct them"
            hint = f"--skip-bad {self.most} skips no more than {self.most}" if self.most else hint
            raise BadRecordsError(f"{count_text}; {hint}", *messages)
        if count:
            lines = [f"warning: {what}: skipped: {plural(count, 'bad record')} (--skip-bad {self.most})"]
            log(joined([*lines, *(f"  {each}" for each in messages)]), has_lines=True)


@dataclass
class Like:
    path: Path
    n_features: int
    label_names: list[str]
    text: TextSettings | None  # None for numbers
    feature_names: list[str] | None
    label_titles: list[str] | None
    new_labels: bool  # whether labels missing from it are added
    renamed: dict[str, str] = field(default_factory=dict)  # old label name -> name in `label_names`


@dataclass(frozen=True)
class Conversion:
    """One conversion. `is_text` None: the --like file decides."""

    comm: mpi.Comm
    source: str
    inputs: Sequence[Path]
    options: ConvertOptions
    log: Log
    input_name: object  # used in messages
    is_text: bool | None
    generator: str = ""  # of synthetic rows
    like: Like | None = None
    descriptors: Descriptors | None = None
    max_line: int = LINE_MIB << 20  # bytes
    scratch: Path = Path()  # folder for temporary files
    bad: BadRecords = field(default_factory=BadRecords)

    def share(self, n: int) -> tuple[int, int]:
        return even_range(n, self.comm.rank, self.comm.size)

    def share_by_weight(self, weights: Sequence[int]) -> tuple[int, int]:
        begin, end = bounds_by_weight(offsets(weights), self.comm.size)[self.comm.rank : self.comm.rank + 2].tolist()
        return begin, end


@contextmanager
def reading(task: Conversion) -> Iterator[None]:
    fatal: DataError | OptionError | None = None
    with mpi.agreed(task.comm, f"reading {task.input_name}"):
        try:
            yield
        except EnoughBadRecords:
            pass
        except (DataError, OptionError) as error:
            fatal = error
    task.bad.conclude(task.comm, task.input_name, fatal, task.log)


@dataclass
class Block:
    path: Path
    offset: int

    @cached_property
    def n_above(self) -> int:
        return lines_before(self.path, self.offset)


class LineLocation(NamedTuple):
    block: Block
    in_block: int
    on_rank: int

    def __str__(self) -> str:
        return f"{self.block.path}: line {self.block.n_above + self.in_block + 1}"


def lines_of(
    task: Conversion, path: Path, begin: int, end: int, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[LineLocation, bytes]]:
    on_rank = 0
    for offset, lines in line_blocks(path, begin, end, block_bytes, task.max_line):
        block = Block(path, offset)
        for in_block, line in enumerate(BytesIO(lines)):
            yield LineLocation(block, in_block, on_rank), line
            on_rank += 1


@contextmanager
def error_location(location: object) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise DataError(f"{location}: {error}") from None


@contextmanager
def damage_errors(path: Path, errors: tuple[type[Exception], ...], problem: str) -> Iterator[None]:
    """Errors of the operating system are raised unchanged."""
    try:
        yield
    except DataError:
        raise
    except errors as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise DataError(f"{path}: {problem} ({reason or type(error).__name__}); download or create it again") from None


def read_like(path: Path, task: Conversion) -> Like:
    if path.is_dir() or kind_of(path) in ("model", "classifier"):
        model = open_model(path)
        labels, titles, n_features = model.label_names, model.label_titles, model.n_features
        raw_input = require_raw_input(model)
    else:
        with DataFile(path) as dataset:
            labels, titles, n_features = dataset.label_names(), dataset.label_titles(), dataset.n_features
            raw_input = RawInput.of_dataset(dataset)
    if task.is_text not in (None, raw_input.is_text):
        kind = "text" if raw_input.is_text else "numbers, not from text"
        raise ConfigError(f"--like {path}: was made from {kind}; {task.source} cannot use its features")
    settings, names = (TextSettings.of(raw_input, path), None) if raw_input.is_text else (None, raw_input.names)
    renamed = read_renames(task.options.renamed, labels, path)
    labels = [renamed.get(name, name) for name in labels]
    return Like(path, n_features, labels, settings, names, titles, task.options.new_labels, renamed)


def read_renames(renamed: Sequence[str], known: Sequence[str], like: Path) -> dict[str, str]:
    pairs: dict[str, str] = {}
    known_names, new_names = set(known), set[str]()
    for where, text, separator, expected in [line for value in renamed for line in _lines_of(value)]:
        names = [part.strip() for part in text.split(separator)]
        if len(names) != 2 or not all(names):
            raise ConfigError(f"{where}: expected {expected}")
        old, new = names
        if old in pairs or old in new_names or new in pairs or new in new_names:
            twice = old if old in pairs or old in new_names else new
            raise ConfigError(f"{where}: {twice!r} is in two renames; rename each label once")
        if old not in known_names:
            raise ConfigError(f"{where}: {like} has no label {old!r}; {nearest(old, list(known), 'hpcml info')}")
        if new in known_names:
            raise ConfigError(f"{where}: {like} already has a label {new!r}; remove the rename and use this label in the input")
        pairs[old] = new
        new_names.add(new)
    return pairs


def _lines_of(value: str) -> list[tuple[str, str, str, str]]:
    """Return (location, text, separator, expected form) of each rename in one value of --renamed."""
    if "=" in value:
        return [(f"--renamed {value}", value, "=", "OLD=NEW, or a file for names with =")]
    lines = enumerate(read_small(Path(value)).splitlines(), 1)
    renames = [(f"{value}: line {number}", line, "\t", PAIR) for number, line in lines if line.strip()]
    if not renames:
        raise DataError(f"{value}: no names; expected one rename per line: {PAIR}")
    return renames


def read_names(comm: mpi.Comm, path: Path | None, size: int, what: str) -> list[str] | None:
    """Read `size` names, one per line; None without a file. Collective over `comm`."""
    if path is None:
        return None

    def read() -> list[str]:
        names: list[str] = []
        for number, line in read_lines(path, LONGEST_NAME, "; expected a name"):
            name = line.strip()
            if not name or "\0" in name:
                raise DataError(f"{path}: line {number}: {'a NUL in' if name else 'no'} name; expected one name per line")
            names.append(name)
        if len(names) != size:
            raise DataError(f"{path}: {len(names)} names, but there are {size} {what}; expected one per line")
        return names

    return mpi.run_on_root(comm, f"reading {path}", read)


def check_matrix_labels(what: object, options: ConvertOptions) -> None:
    for name in ("empty_labels", "label_separator", "labels_as_text"):
        if value := getattr(options, name):
            raise OptionError(name, value, f"has no effect on a label matrix ({what}); remove it")
