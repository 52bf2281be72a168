"""Making a dataset file: each rank reads its part and writes its slab; none holds the whole."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.conversion.fields import PLAIN, parse_fields
from hpcml.conversion.like import Like, padded, read_like
from hpcml.conversion.noise import add_label_noise, check_noise
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.renames import rename_files
from hpcml.conversion.row_ids import RowIds
from hpcml.conversion.sources import SOURCES, Source
from hpcml.conversion.split import check_share
from hpcml.data.dataset import NAMES_OF, UNKNOWN
from hpcml.data.descriptors import share_descriptors
from hpcml.errors import ConfigError, DataError, nearest, repeated
from hpcml.files.hdf5 import (
    NAME_CHUNK,
    create_strings,
    describe_matrix,
    matrix_slabs,
    stamp,
    vocabulary_digest,
    write_label_titles,
    write_strings,
)
from hpcml.files.lines import line_limit
from hpcml.files.slabs import Slab, SlabFile, editing, new_file
from hpcml.files.spool import slices
from hpcml.files.unpacking import unpacked_once
from hpcml.log import Log, joined, named, plural
from hpcml.options import flag_of

MAX_ROWS = 2**40  # so that sizes in bytes fit int64


@dataclass(frozen=True)
class ConvertReport:
    """The result of a conversion; --like lacks `dropped_values` and `unknown_*`.

    `changed` are the rows that --label-noise gave another class (None without).
    """

    output: Path
    rows: int
    features: int
    labels: int
    nnz: int
    splits: dict[str, int]
    dropped_values: int
    unknown_labels: int
    unknown_entries: int  # pairs of a row and an unknown label
    changed: int | None
    seconds: float

    def __str__(self) -> str:
        lines = [
            f"{self.output}: {plural(self.rows, 'row')} × {plural(self.features, 'feature')} × {plural(self.labels, 'label')}, "
            f"{plural(self.nnz, 'value')}, in {self.seconds:.1f} s"
        ]
        lines += [f"  split {name}: {plural(size, 'row')}" for name, size in self.splits.items()]
        if self.dropped_values:
            lines.append(f"  left out: {plural(self.dropped_values, 'value')} (of text: words) that the --like file does not have")
        if self.unknown_labels:
            lines.append(
                f"  unknown: {plural(self.unknown_entries, 'entry', 'entries')} of {plural(self.unknown_labels, 'label')} that the "
                "--like file does not have; `hpcml evaluate` counts them as missed, --new-labels makes labels of them"
            )
        if self.changed is not None:
            lines.append(f"  label noise: {self.changed:,} {'training ' if self.splits else ''}rows have another class")
        return joined(lines)


@dataclass
class _Sizes:
    """Totals over all ranks, and where this rank's part begins."""

    n_rows: int
    nnz: int
    entries: dict[str, int]  # of each matrix of label sets
    splits: dict[str, int]
    first_row: int
    first_value: int
    first_entry: dict[str, int]
    first_in_split: list[int]
    ones: bool


def check_options(source: str, inputs: list[Path], options: ConvertOptions) -> Source:
    """The source of that name. Raises ConfigError for an unknown one and for unfit options."""
    if source not in SOURCES:
        near = difflib.get_close_matches(source, SOURCES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(SOURCES))}"
        raise ConfigError(f"no source {source!r}; {hint}")
    found = SOURCES[source]
    _check_inputs(source, found, inputs, options)
    check_of_source(source, found.options, options)
    check_common(source, of_text(found.is_text, options), options)
    if found.check is not None:
        found.check(str(inputs[0]), options)
    if options.seed and not found.names and options.test_share is None and options.label_noise is None:
        raise ConfigError(f"--seed {options.seed} has no effect without --test-share or --label-noise; leave it out")
    return found


def of_text(is_text: bool | None, options: ConvertOptions) -> bool | None:
    """Whether rows are made from text, as far as options tell (None: --like may say)."""
    if is_text is None and (options.text or options.fields):
        return True
    return False if is_text is None and (options.features or options.like is None) else is_text


def check_of_source(source: str, known: Collection[str], options: ConvertOptions) -> None:
    """Raise ConfigError for options of other sources, or without effect beside the others."""
    if options.zero_based and "zero_based" not in known:
        raise ConfigError(f"--zero-based is for svmlight, but {source} has no indices; leave it out")
    for name in sorted({name for each in SOURCES.values() for name in each.options} - {*known}):
        value = getattr(options, name)
        if value not in (None, (), False):
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
            users = joined_words([other for other, each in sorted(SOURCES.items()) if name in each.options])
            flag = f"--{flag_of(name)}" if value is True else f"--{flag_of(name)} {shown}"
            raise ConfigError(f"{flag} is for {users}, but this is {source}; leave it out")
    line_limit(options.max_line_mb)
    if options.label_separator is not None and not options.label_separator:
        raise ConfigError('--label-separator: empty, but expected what stands between labels, such as ";"')
    if options.label_separator is not None and "labels" in known and not options.labels:
        raise ConfigError(f"--label-separator {options.label_separator} has no effect without --labels; leave it out")
    if options.delimiter is not None and (
        len(options.delimiter) != 1 or options.delimiter in '"\n\r' or not options.delimiter.isascii()
    ):
        raise ConfigError(f"--delimiter {options.delimiter!r}: expected one ASCII character that stands between columns")
    if options.text and options.fields:
        raise ConfigError("--text and --fields both name columns of texts; leave one out (--fields tells their words apart)")
    if options.features and (options.text or options.fields):
        raise ConfigError("--features are numbers, but --text and --fields make rows from texts; leave one out")
    if options.missing_as_zero and (options.text or options.fields):
        raise ConfigError("--missing-as-zero is for numbers, but --text and --fields make rows from texts; leave it out")


def joined_words(words: list[str]) -> str:
    """ "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def check_common(source: str, is_text: bool | None, options: ConvertOptions) -> None:
    """Raise ConfigError for unfit options of all sources; `is_text` None: not known yet."""
    fixed = source not in SOURCES or SOURCES[source].is_text is not None
    if options.min_df < 1:
        raise ConfigError(f"--min-df {options.min_df}: expected at least 1")
    if options.test_share is not None:
        check_share(options.test_share)
    if options.test_share is not None and options.split_column is not None:
        raise ConfigError(f"--test-share {options.test_share}: --split-column names splits already; leave one out")
    if options.label_noise is not None:
        check_noise(options.label_noise)
    for flag, given in {"--new-labels": options.new_labels, "--renamed": bool(options.renamed)}.items():
        if given and options.like is None:
            raise ConfigError(f"{flag} has no effect without --like; leave it out, or name the dataset whose words are used again")
    fields = _fields(options)
    uses = {
        "--fields": bool(options.fields),
        "--headings-as-features": options.headings_as_features,
        "--binary": options.binary,
        "--pairs": options.pairs,
        "--min-df": options.min_df != 1,
        "--stop-words": options.stop_words is not None,
    }
    for flag, used in uses.items():
        if used and is_text is False:
            raise ConfigError(f"{flag} is for text, but {source} has numbers{'' if fixed else ' without --text'}; leave it out")
        if used and options.like is not None:
            raise ConfigError(f"{flag} does not go with --like, which takes it from {options.like}; leave it out")
    if options.headings_as_features and options.label_noise is not None:
        raise ConfigError("--label-noise changes labels, but --headings-as-features would tell the true ones; leave one out")
    if options.fields and source == "folder":
        raise ConfigError(
            f"--fields {','.join(options.fields)}: a file is one text, so there is nothing to tell apart; leave it out"
        )
    for field in fields if source == "docstrings" else ():
        if field not in (each.name for each in PLAIN):
            raise ConfigError(f"--fields {field}: docstrings have the fields title and text; choose of these")


def _fields(options: ConvertOptions) -> list[str]:
    """The names of the fields that are told apart. Raises ConfigError for what names none."""
    try:
        return [field.name for field in parse_fields(options.fields, options.whole_fields)]
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _check_inputs(source: str, found: Source, inputs: list[Path], options: ConvertOptions) -> None:
    """Raise ConfigError unless the inputs, --rows and --like are what the source takes."""
    names = sorted(found.names)
    least, most = found.n_inputs
    if not least <= len(inputs) <= most:
        takes = f"one of {', '.join(names)}" if names else _n_files(least, most)
        raise ConfigError(f"{source} takes {takes}, but got {len(inputs) or 'none'}")
    if not names:
        if options.rows is not None:
            raise ConfigError(f"--rows is for synthetic, but {source} has rows of its own; leave it out")
        return
    if str(inputs[0]) not in names:
        raise ConfigError(f"{source} cannot make {str(inputs[0])!r}; {nearest(str(inputs[0]), names)}")
    if options.rows is None:
        raise ConfigError(f"{source} needs --rows, the number of rows to make")
    if not 1 <= options.rows <= MAX_ROWS:
        raise ConfigError(f"--rows {options.rows}: expected at least 1 and at most {MAX_ROWS}")
    if options.like is not None:
        raise ConfigError(f"--like {options.like}: {source} has features and labels of its own; leave it out")


def _n_files(least: int, most: int) -> str:
    """How many input files, in words."""
    if most == 0:
        return "no input file"
    return "one input file" if most == 1 else "one input file or two" if most == 2 else "one or more input files"


@mpi.collective
def convert(
    comm: mpi.Comm, source: str, inputs: list[Path], output: Path, options: ConvertOptions, force: bool, log: Log
) -> ConvertReport:
    """Collective over `comm`. Make the dataset `output`: the same bytes on any number of ranks.

    Raises ConfigError for options that make no sense and an output that exists (without `force`),
    DataError for input that cannot be read or holds what it should not. Then no file remains.
    """
    chosen = check_options(source, inputs, options)
    paths = [Path(path) for path in inputs]
    files = [] if chosen.names else paths

    def read(like: Like | None, scratch: Path) -> Part:
        with unpacked_once(comm, [] if chosen.by_file else files, scratch, line_limit(options.max_line_mb)):
            return chosen.read(comm, paths, options, like, log, scratch)

    hint = "make more rows" if chosen.names else ""
    is_text = of_text(chosen.is_text, options)
    return write_dataset(comm, read, source, is_text, files[0] if files else source, files, output, options, force, log, hint)


@mpi.collective
def write_dataset(
    comm: mpi.Comm,
    read: Callable[[Like | None, Path], Part],
    source: str,
    is_text: bool | None,
    where: object,
    files: Sequence[Path],
    output: Path,
    options: ConvertOptions,
    force: bool,
    log: Log,
    hint: str = "",
) -> ConvertReport:
    """Collective over `comm`. Make the dataset `output` of what `read` gives, for --like and a
    folder for temporary files.

    Messages call the input `where`; `files` are inputs that the output must not be. Raises as
    `convert`.
    """
    begin = time.monotonic()
    with new_file(
        comm,
        output,
        force,
        [
            *files,
            options.like,
            options.stop_words,
            options.vocabulary,
            options.feature_names,
            options.label_names,
            options.descriptors,
            *rename_files(options.renamed),
        ],
    ) as out:
        like = read_like(comm, options, source, is_text)
        part = read(like, out.path.parent)
        with mpi.agreed(comm, f"reading {where}"):
            _check_names(where, part)
        if part.label_titles is None:
            part.label_titles = _label_titles(comm, part.labels.names, like, options)
        changed = None if options.label_noise is None else add_label_noise(comm, part, options)
        sizes = _sizes(comm, part)
        if sizes.n_rows == 0:
            raise DataError(f"{where}: no rows; expected at least one")
        if sizes.entries["Y"] == 0 and like is None:
            if source in SOURCES and "labels" in SOURCES[source].options and not options.labels:
                hint = hint or "name the columns of labels with --labels"
            raise DataError(f"{where}: no label in any row; expected at least one (or {hint or '--like a dataset that has some'})")
        if sizes.nnz == 0:
            log(f"warning: {where}: no row has a feature, so that nothing can be learnt from the rows, nor said of them")
        size = f"{plural(sizes.n_rows, 'row')} × {plural(part.n_features, 'feature')} × {plural(len(part.labels.names), 'label')}"
        warn_of_separator(part.labels.names, options, log)
        log(f"{output}: writing {size}")
        _write(comm, out, part, sizes, source, output)
        _, (dropped,) = mpi.exclusive_sum(comm, [part.dropped])
    return ConvertReport(
        output=Path(output),
        rows=sizes.n_rows,
        features=part.n_features,
        labels=len(part.labels.names),
        nnz=sizes.nnz,
        splits=sizes.splits,
        dropped_values=int(dropped),
        unknown_labels=0 if part.labels.unknown is None else len(part.labels.unknown.names),
        unknown_entries=sizes.entries.get(UNKNOWN, 0),
        changed=changed,
        seconds=time.monotonic() - begin,
    )


def warn_of_separator(names: Sequence[str], options: ConvertOptions, log: Log) -> None:
    """Warn if labels look like several labels in one value."""
    if options.label_separator is not None or not options.labels:
        return
    for separator in ";|":
        if found := [name for name in names if separator in name]:
            example = named(found[0])
            log(
                f"warning: {plural(len(found), 'label')} such as {example!r} may be several, with {separator!r} between them; "
                f"if so, give --label-separator '{separator}'"
            )
            return


def _check_names(where: object, part: Part) -> None:
    """Raise DataError if two labels or features have one name (words are unique as made)."""
    for what, names in (("labels", part.labels.names), ("features", part.feature_names)):
        if isinstance(names, Sequence) and (name := repeated(names)) is not None:
            raise DataError(f"{where}: two {what} have the name {named(name)!r}; give each a name of its own")


@mpi.collective
def _label_titles(comm: mpi.Comm, names: list[str], like: Like | None, options: ConvertOptions) -> list[str] | None:
    """Collective over `comm`. The titles of --descriptors, else of --like. Raises ConfigError."""
    if options.descriptors is None:
        return None if like is None or like.label_titles is None else padded(like.label_titles, len(names))
    titles = share_descriptors(comm, options.descriptors).titles(names)
    if names and not any(titles):
        raise ConfigError(
            f"--descriptors {options.descriptors}: it has none of the labels, such as {named(names[0])!r}; leave it out, or "
            "name the file of these labels"
        )
    return titles


@mpi.collective
def _sizes(comm: mpi.Comm, part: Part) -> _Sizes:
    """Collective over `comm`. Add up the parts."""
    in_split = np.bincount(part.split[part.split >= 0], minlength=len(part.split_names))
    sets = part.labels.sets
    entries = [labels.indices.size for labels in sets.values()]
    first, total = mpi.exclusive_sum(comm, [part.n_rows, part.indices.size, *entries, *in_split])
    of_splits = 2 + len(entries)
    data, ones = part.data, True
    with mpi.agreed(comm, "adding up the parts"):
        ones = data is None or all((data[some] == 1).all() for some in slices(data.size))
    ones = not mpi.agreed_any(comm, not ones)
    return _Sizes(
        n_rows=int(total[0]),
        nnz=int(total[1]),
        entries={name: int(size) for name, size in zip(sets, total[2:of_splits], strict=True)},
        splits={name: int(size) for name, size in zip(part.split_names, total[of_splits:], strict=True)},
        first_row=int(first[0]),
        first_value=int(first[1]),
        first_entry={name: int(n) for name, n in zip(sets, first[2:of_splits], strict=True)},
        first_in_split=[int(n) for n in first[of_splits:]],
        ones=ones,
    )


def _describe(file: h5py.File, part: Part, sizes: _Sizes, source: str) -> None:
    """Everything in the file that is not a slab."""
    stamp(file, "dataset")
    file.attrs["source"] = source
    file.attrs["vocabulary"] = vocabulary_digest(part.feature_names, part.n_features)
    describe_matrix(file, "X", sizes.n_rows, part.n_features, sizes.nnz, sizes.ones)
    for name, labels in part.labels.sets.items():
        describe_matrix(file, name, sizes.n_rows, len(labels.names), sizes.entries[name], ones=True)
        write_strings(file, NAMES_OF[name], labels.names)
    write_label_titles(file, part.label_titles)
    if part.feature_names is not None:
        write_strings(file, "feature_names", part.feature_names)
    if part.text is not None:
        part.text.write(file)


@mpi.collective
def _write(comm: mpi.Comm, out: SlabFile, part: Part, sizes: _Sizes, source: str, output: Path) -> None:
    """Collective over `comm`. Lay the file out and write this rank's slabs."""
    slabs = matrix_slabs("X", sizes.n_rows, sizes.nnz, part.n_features, None if sizes.ones else "<f4")
    for name, labels in part.labels.sets.items():
        slabs |= matrix_slabs(name, sizes.n_rows, sizes.entries[name], len(labels.names), None)
    slabs |= {f"splits/{name}": Slab((size,), "<i8") for name, size in sizes.splits.items()}
    slabs |= {f"rows/{name}": Slab((sizes.n_rows,), numbers.dtype.str) for name, numbers in part.row_numbers.items()}
    out.layout(slabs, lambda file: _describe(file, part, sizes, source))
    if part.row_ids is not None:
        _write_row_ids(comm, out.path, output, part.row_ids, sizes.n_rows)
    with mpi.agreed(comm, f"writing {output}"):
        of_labels = [(name, each.indptr, each.indices, sizes.first_entry[name]) for name, each in part.labels.sets.items()]
        for name, indptr, indices, first in (("X", part.indptr, part.indices, sizes.first_value), *of_labels):
            begin = 0 if comm.rank == 0 else 1  # entry 0 of the whole is rank 0's
            for some in slices(indptr.size):
                ends = indptr[max(begin, some.start) : some.stop]
                out.write(f"{name}/indptr", sizes.first_row + max(begin, some.start), first + ends)
            for some in slices(indices.size):
                out.write(f"{name}/indices", first + some.start, indices[some])
        for some in slices(0 if sizes.ones else part.indices.size):
            data = np.ones(some.stop - some.start, dtype=np.float32) if part.data is None else part.data[some]
            out.write("X/data", sizes.first_value + some.start, data)
        for name, numbers in part.row_numbers.items():
            out.write(f"rows/{name}", sizes.first_row, numbers)
        for number, name in enumerate(part.split_names):
            place = sizes.first_in_split[number]
            for some in slices(part.n_rows):
                rows = some.start + np.flatnonzero(part.split[some] == number)
                out.write(f"splits/{name}", place, sizes.first_row + rows)
                place += rows.size


@mpi.collective
def _write_row_ids(comm: mpi.Comm, path: Path, output: Path, row_ids: RowIds, n_rows: int) -> None:
    """Collective over `comm`. Rank 0 writes all ranks' row ids, in row order.

    HDF5 lays the strings of one call out backwards, so the calls are cut at rows that do not depend
    on the number of ranks.
    """
    chunks = (row_ids[begin : begin + NAME_CHUNK] for begin in range(0, len(row_ids), NAME_CHUNK))
    waiting: list[str] = []
    written = 0

    def write(ids: list[str]) -> None:
        nonlocal written
        waiting.extend(ids)
        while len(waiting) >= min(NAME_CHUNK, n_rows - written) > 0:
            some = waiting[:NAME_CHUNK]
            file["row_ids"][written : written + len(some)] = np.array(some, dtype=object)
            del waiting[:NAME_CHUNK]
            written += len(some)

    with ExitStack() as stack:
        with mpi.agreed(comm, f"writing {output}"):
            if comm.rank == 0:
                file = stack.enter_context(editing(path, target=output))
                create_strings(file, "row_ids", n_rows)
        mpi.stream_to_root(comm, chunks, write)
        with mpi.agreed(comm, f"writing {output}"):
            stack.close()
