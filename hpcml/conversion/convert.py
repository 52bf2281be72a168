"""Write a dataset file: each rank reads its part and writes its slabs; no rank holds all rows."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import BadRecords, Conversion, read_like
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.sources import SOURCES, check_options
from hpcml.data.dataset import NAMES_OF, UNKNOWN, UNLABELLED, checked_slabs
from hpcml.data.descriptors import read_descriptors
from hpcml.errors import ConfigError, DataError, OptionError, nearest, repeated
from hpcml.files import hdf5
from hpcml.files.lines import unpacked_once
from hpcml.files.slabs import Slab, SlabFile, new_file, open_for_update
from hpcml.files.spool import DiskStrings, slices
from hpcml.log import Log, joined, named, plural
from hpcml.options import quoted_name


@dataclass(frozen=True)
class ConvertReport:
    """The result of a conversion."""

    output: Path
    rows: int
    features: int
    labels: int
    nnz: int
    splits: dict[str, int]
    dropped_values: int  # values of features missing from the --like file
    unknown_labels: int
    unknown_entries: int  # pairs of a row and an unknown label
    seconds: float
    unlabelled: int = 0  # rows without known labels
    skipped_records: int = 0

    def __str__(self) -> str:
        lines = [
            f"{self.output}: {plural(self.rows, 'row')} × {plural(self.features, 'feature')} × {plural(self.labels, 'label')}, "
            f"{plural(self.nnz, 'value')}, in {self.seconds:.1f} s"
        ]
        lines += [f"  split {name}: {plural(size, 'row')}" for name, size in self.splits.items()]
        if self.unlabelled:
            lines.append(f"  unlabelled: {plural(self.unlabelled, 'row')}, not used for training or evaluation")
        if self.skipped_records:
            lines.append(f"  skipped: {plural(self.skipped_records, 'bad record')}")
        if self.dropped_values:
            values = plural(self.dropped_values, "value")
            lines.append(f"  dropped: {values} of features (for text: words) that are not in the --like file")
        if self.unknown_labels:
            unknown = f"{plural(self.unknown_entries, 'entry', 'entries')} of {plural(self.unknown_labels, 'label')}"
            advice = "`hpcml evaluate` counts them as missed, --new-labels adds these labels"
            lines.append(f"  unknown: {unknown} that are not in the --like file; {advice}")
        return joined(lines)


def convert(
    comm: mpi.Comm, source: str, inputs: list[Path], output: Path, options: ConvertOptions, force: bool, log: Log
) -> ConvertReport:
    """Convert the inputs to the dataset `output`. Collective over `comm`; the bytes do not depend on the number of ranks.

    Raises ConfigError for invalid options and an existing output (without `force`), and DataError for invalid input. After an error
    no file remains.
    """
    chosen = SOURCES[source]
    if not chosen.least <= len(inputs) <= chosen.most:
        takes = {0: "no input file", 1: "one input file", 2: "one input file or two"}.get(chosen.most, "one or more input files")
        takes = f"one of {', '.join(chosen.names)}" if chosen.names else takes
        raise ConfigError(f"{source} takes {takes}, but got {len(inputs) or 'none'}")
    files, generator = [Path(path) for path in inputs], ""
    if chosen.names:
        files, generator = [], str(inputs[0])
        if generator not in chosen.names:
            raise ConfigError(f"no generator {generator!r} in {source}; {nearest(generator, chosen.names)}")
        if options.rows is None:
            raise ConfigError(f"{source} needs --rows, the number of rows")
    is_text = check_options(chosen.options, chosen.is_text, options)
    module = import_module(f"hpcml.conversion.{chosen.module}")
    reader: Callable[[Conversion], Part] = getattr(module, f"read_{source}")
    bad = BadRecords(options.skip_bad, "skip_bad" in chosen.options)
    task = Conversion(comm, source, files, options, log, files[0] if files else source, is_text, generator, bad=bad)
    if options.max_line_mb is not None:
        task = replace(task, max_line=options.max_line_mb << 20)
    if options.test_share is not None and source == "jsonl":
        mpi.run_on_root(comm, f"reading {task.input_name}", lambda: module.check_first(task))
    return write_dataset(task, reader, output, force)


def write_dataset(task: Conversion, read: Callable[[Conversion], Part], output: Path, force: bool) -> ConvertReport:
    begin = time.monotonic()
    comm, options = task.comm, task.options
    files = [options.like, options.stop_words, options.vocabulary, options.feature_names, options.label_names, options.label_xml]
    files += [*task.inputs, options.descriptors, *(Path(value) for value in options.renamed if "=" not in value)]
    packed = [] if task.source in SOURCES and SOURCES[task.source].by_file else task.inputs
    with new_file(comm, output, force, files) as out:
        task = replace(task, scratch=out.path.parent)
        if options.like is not None:
            task = replace(task, like=mpi.run_on_root(comm, f"reading {options.like}", lambda: read_like(options.like, task)))
        if options.descriptors is not None:
            doing = f"reading {options.descriptors}"
            task = replace(task, descriptors=mpi.run_on_root(comm, doing, lambda: read_descriptors(options.descriptors)))
        with unpacked_once(comm, packed, task.scratch, task.max_line):
            part = read(task)
        names = part.labels["Y"]
        with mpi.agreed(task.comm, f"reading {task.input_name}"):
            if isinstance(part.feature_names, Sequence) and (name := repeated(part.feature_names)) is not None:
                raise DataError(f"{task.input_name}: two features have the name {named(name)!r}; rename one")
        if part.label_titles is None:
            known, titles = set(names), dict[str, str]()
            for rank_titles in comm.allgather({name: title for name, title in part.titles.items() if name in known}):
                titles |= rank_titles
            like_titles = [] if task.like is None else task.like.label_titles or []
            titles |= {name: title for name, title in zip(names, like_titles, strict=False) if title}
            if task.descriptors is not None:
                by_file = {name: title for name, title in zip(names, task.descriptors.titles(names), strict=True) if title}
                if names and not by_file:
                    why = f"contains none of the labels, such as {named(names[0])!r}; remove it or give the file for these labels"
                    raise OptionError("descriptors", options.descriptors, why)
                titles |= by_file
            part.label_titles = [titles.get(name, "") for name in names]

        # Sizes of this rank's part, of the parts of lower ranks, and of all.
        data = part.matrices["X"].data
        with mpi.agreed(comm, "adding up the parts"):
            others = data is not None and not all((data[piece] == 1).all() for piece in slices(data.size))
        sizes = {"rows": part.matrices["X"].n_rows, "dropped": part.dropped, UNLABELLED: part.unlabelled.size}
        sizes |= {name: matrix.indices.size for name, matrix in part.matrices.items()}
        in_split = np.bincount(part.splits.split_of_row[part.splits.split_of_row >= 0], minlength=len(part.splits.names))
        sizes |= {f"splits/{name}": size for name, size in zip(part.splits.names, in_split, strict=True)}
        first, total = (dict(zip(sizes, counts.tolist(), strict=True)) for counts in mpi.exclusive_sum(comm, sizes.values()))
        ones = not mpi.agreed_any(comm, others)

        if total["rows"] == 0:
            raise DataError(f"{task.input_name}: no rows; expected at least one")
        if total["Y"] == 0 and task.like is None:
            by_columns = task.source in SOURCES and "labels" in SOURCES[task.source].options and not options.labels
            hint = "name the label columns with --labels" if by_columns else "use --like with a labelled dataset"
            hint = "increase --rows" if task.generator else hint
            raise DataError(f"{task.input_name}: no label in any row; expected at least one (or {hint})")
        if total["X"] == 0:
            task.log(f"warning: {task.input_name}: no row has any feature, so nothing can be trained or predicted")
        for separator in ";|" if options.label_separator is None and options.labels else "":
            if compound := [name for name in names if separator in name]:
                joint = f"{plural(len(compound), 'label')} such as {named(compound[0])!r}"
                advice = f"if so, use --label-separator '{separator}'"
                task.log(f"warning: {joint} may be several labels separated by {separator!r}; {advice}")
                break
        size = f"{plural(part.n_features, 'feature')} × {plural(len(names), 'label')}"
        task.log.detail(f"{output}: writing {plural(total['rows'], 'row')} × {size}")
        _write(task, out, part, first, total, ones)
    return ConvertReport(
        output=Path(output),
        rows=total["rows"],
        features=part.n_features,
        labels=len(names),
        nnz=total["X"],
        splits={name: total[f"splits/{name}"] for name in part.splits.names},
        dropped_values=total["dropped"],
        unknown_labels=len(part.labels.get(UNKNOWN, ())),
        unknown_entries=total.get(UNKNOWN, 0),
        unlabelled=total[UNLABELLED],
        skipped_records=task.bad.skipped,
        seconds=time.monotonic() - begin,
    )


def _write(task: Conversion, out: SlabFile, part: Part, first: Mapping[str, int], total: Mapping[str, int], ones: bool) -> None:
    comm, n_rows, doing = task.comm, total["rows"], f"writing {out.target}"
    widths = {"X": part.n_features} | {name: len(names) for name, names in part.labels.items()}
    slabs: dict[str, Slab] = {}
    for name, width in widths.items():
        slabs |= hdf5.matrix_slabs(name, n_rows, total[name], width, "<f4" if name == "X" and not ones else None)
    slabs |= {f"splits/{name}": Slab((total[f"splits/{name}"],), "<i8") for name in part.splits.names}
    slabs |= {UNLABELLED: Slab((total[UNLABELLED],), "<i8")} if total[UNLABELLED] else {}
    slabs |= {f"rows/{name}": Slab((n_rows,), numbers.dtype.str) for name, numbers in part.row_numbers.items()}
    row_arrays = {"row_keys": part.keys} | ({} if part.groups is None else {"row_groups": part.groups})
    slabs |= {name: Slab((n_rows,), "<u8") for name in row_arrays}
    row_arrays |= {f"rows/{name}": numbers for name, numbers in part.row_numbers.items()}

    def describe(file: h5py.File) -> None:
        hdf5.stamp(file, "dataset")
        file.attrs["source"] = task.source
        if task.options.id is not None:
            file.attrs["id_column"] = task.options.id
        if task.options.text:
            file.attrs["text_columns"] = ",".join(map(quoted_name, task.options.text))
        if task.bad.skipped:
            file.attrs["skipped_records"] = task.bad.skipped
        file.attrs["vocabulary"] = hdf5.vocabulary_digest(part.feature_names, part.n_features)
        for name, width in widths.items():
            hdf5.describe_matrix(file, name, n_rows, width, total[name], ones or name != "X")
            if name in part.labels:
                hdf5.write_strings(file, NAMES_OF[name], part.labels[name])
        hdf5.write_label_titles(file, part.label_titles)
        if part.feature_names is not None:
            hdf5.write_strings(file, "feature_names", part.feature_names)
        if part.text is not None:
            part.text.write(file)

    out.layout(slabs, describe, checked_slabs(slabs))
    if (row_ids := part.row_ids) is not None:  # rank 0 writes the ids of all ranks, in row order
        all_ids = DiskStrings(task.scratch)
        chunks = ([name.encode() for name in row_ids[piece]] for piece in slices(row_ids.lines.size, hdf5.NAME_CHUNK))
        mpi.stream_to_root(comm, chunks, all_ids.extend)
        with mpi.agreed(comm, doing):
            if comm.rank == 0:
                with open_for_update(out.path, target=out.target) as file:
                    hdf5.write_strings(file, "row_ids", all_ids)
    with mpi.agreed(comm, doing):
        for name, matrix in part.matrices.items():
            begin = 0 if comm.rank == 0 else 1  # rank 0 writes entry 0
            for piece in slices(matrix.indptr.size):
                ends = matrix.indptr[max(begin, piece.start) : piece.stop]
                out.write(f"{name}/indptr", first["rows"] + max(begin, piece.start), first[name] + ends)
            for piece in slices(matrix.indices.size):
                out.write(f"{name}/indices", first[name] + piece.start, matrix.indices[piece])
        X = part.matrices["X"]
        for piece in slices(0 if ones else X.indices.size):
            data = np.ones(piece.stop - piece.start, dtype=np.float32) if X.data is None else X.data[piece]
            out.write("X/data", first["X"] + piece.start, data)
        for name, numbers in row_arrays.items():
            out.write(name, first["rows"], numbers)
        if total[UNLABELLED]:
            out.write(UNLABELLED, first[UNLABELLED], first["rows"] + part.unlabelled)
        for number, name in enumerate(part.splits.names):
            position = first[f"splits/{name}"]
            for piece in slices(X.n_rows):
                rows = piece.start + np.flatnonzero(part.splits.split_of_row[piece] == number)
                out.write(f"splits/{name}", position, first["rows"] + rows)
                position += rows.size
    out.write_checksums()
