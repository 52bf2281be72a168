"""Predict the labels of a dataset's rows and write them as a table, with the same bytes on any number of ranks.

`records.predict_stream` does the same for records of a file or of standard input.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard, load_shard, mask_empty_texts
from hpcml.errors import DataError, OptionError, file_error
from hpcml.evaluation.comparable import Comparable
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.thresholds import hint_at_few_labels
from hpcml.evaluation.top import make_top_finder
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import NAME_CHUNK, create_strings, stamp, write_label_titles, write_strings
from hpcml.files.slabs import Slab, new_file
from hpcml.log import Log, Progress, plural
from hpcml.model.scoring import WEIGHT_BYTES, BlockWeights, make_scorer
from hpcml.model.trained import SIGMOID, Trained
from hpcml.prediction.table import BinaryTable, RowLabels, Table, about, make_table

# Memory for a chunk of rows: one byte per row and label, or 12 bytes per row and best label.
CHUNK_BYTES = 1 << 27
# Maximum rows of a chunk, and maximum lines of a chunk of several rows.
MAX_ROWS = 1 << 16
MAX_LINES = 1 << 21
COPY_BYTES = 1 << 24
STANDARD_OUTPUT = "-"
ReadIds: TypeAlias = "Callable[[int, int], Sequence[str]]"  # ids of rows begin to end of a shard


class Prediction:
    """Finds the labels of rows, best first: the labels above the model's thresholds, or the `top` best."""

    def __init__(self, comm: mpi.Comm, model: Trained, shard: Shard, top: int | None = None) -> None:
        self.comm, self.model, self.top = comm, model, top
        self.comparable, self.sigmoids = Comparable(model, np.arange(model.n_labels)), model.sigmoids
        self.scorer = make_scorer(model, shard, np.arange(model.n_labels))
        self.scorer.warm_up(comm, only_rows=top is None)
        self.keeps_weights = can_keep_weights(model)
        self._weights = BlockWeights(self.keeps_weights)
        self.best: Any = None if top is None else make_top_finder(comm, self.scorer, top, self.keeps_weights)
        width = model.n_labels if top is None else 12 * self.best.size
        self._step = max(1, min(MAX_ROWS, CHUNK_BYTES // max(1, width)))  # rows per chunk
        self.n_rows = self.n_lines = self.n_without = self.n_empty = 0  # rows, lines, rows without labels, rows without features

    def find(self, shard: Shard, ids: ReadIds | None = None, empty: np.ndarray | None = None) -> Iterator[RowLabels]:
        """Yield the labels of a shard's rows in chunks; rows flagged in `empty` (n_local,) get none. Raises NonFiniteError."""
        scorer, begin = make_scorer(self.model, shard, self.scorer.labels), 0
        while begin < shard.rows.size:
            chunk = shard.rows[begin : begin + self._step]
            if self.best is not None:
                best = self.best.best(scorer, chunk)
                rows = np.repeat(np.arange(chunk.size), best.labels.shape[1])
                labels, scores = best.labels.ravel(), best.scores.ravel()
            elif (lines := self._find_labels_above_thresholds(scorer, chunk)) is not None:
                rows, labels, scores = lines
            else:
                self._step = max(1, self._step // 2)
                continue
            if empty is not None:
                is_kept = ~empty[begin + rows]
                rows, labels, scores = rows[is_kept], labels[is_kept], scores[is_kept]
                self.n_empty += int(np.count_nonzero(empty[begin : begin + chunk.size]))
            values = scores
            if self.sigmoids is not None:
                values = probabilities(scores[None], *self.sigmoids, labels[None])[0]
            self.n_rows += chunk.size
            self.n_lines += labels.size
            self.n_without += chunk.size - np.unique(rows).size
            names: Sequence[str | int] = (shard.first_row + chunk).tolist() if ids is None else ids(begin, begin + chunk.size)
            yield RowLabels(shard.first_local + begin, names, rows, labels, values)
            begin += chunk.size

    def _find_labels_above_thresholds(self, scorer: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return ascending row indices, labels above their thresholds (best first) and scores; None if there are too many."""
        n_lines, parts = 0, []
        for block, scores in self._weights.scores(scorer, rows):
            indices, lanes = np.nonzero(scores > self.model.thresholds[block])
            n_lines += indices.size
            if n_lines > MAX_LINES and rows.size > 1:
                return None
            parts.append((indices, lanes.astype(np.int32) + np.int32(block.start), scores[indices, lanes]))
        indices, labels, scores = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((labels, -self.comparable.values(scores, labels), indices))
        return indices[order], labels[order], scores[order]

    def score(self, shard: Shard) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, scores (n, n_labels)) of a shard's rows in chunks. Raises NonFiniteError."""
        scorer = make_scorer(self.model, shard, self.scorer.labels)
        step = max(1, min(MAX_ROWS, CHUNK_BYTES // (8 * max(1, self.model.n_labels))))
        for begin in range(0, shard.rows.size, step):
            yield shard.first_local + begin, self._weights.all_scores(scorer, shard.rows[begin : begin + step])

    def finish(self, log: Log, output: Path, more: str = "", n_left_out: int = 0) -> None:
        counts = [self.n_rows, self.n_lines, self.n_without, self.n_empty, n_left_out]
        n_rows, n_lines, n_without, n_empty, n_left_out = (int(n) for n in mpi.exclusive_sum(self.comm, counts)[1])
        more += f"; {plural(n_left_out, 'value')} of features unknown to the model ignored" if n_left_out else ""
        rows, name = plural(n_rows, "row"), "standard output" if str(output) == STANDARD_OUTPUT else output
        without = f"; {n_without:,} of {rows} got no label" if n_without else ""
        log(f"{name}: {plural(n_lines, 'label')} of {rows}, {describe_rule(self.model, self.top)}{without}{more}")
        if n_empty:
            log(f"note: {plural(n_empty, 'row')} without known features get no labels")
        if self.top is None:
            hint_at_few_labels(log, n_lines, n_rows, self.model)


def can_keep_weights(model: Trained) -> bool:
    combination = getattr(model, "combination", None)
    n_parts = 1 if combination is None else combination.n_parts
    return 8 * n_parts * model.n_labels * model.n_features <= WEIGHT_BYTES


def read_ids(dataset: DataFile, rows: np.ndarray, begin: int, end: int) -> list[str]:
    block = rows[begin:end]
    ids = dataset.strings("row_ids", int(block[0]), int(block[-1]) + 1) or []
    return [ids[row] for row in (block - block[0]).tolist()]


def predict(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str,
    output: Path,
    force: bool,
    log: Log,
    top: int | None = None,
    text_format: str | None = None,
) -> None:
    """Write the labels of a split's rows, or the `top` best of each row. Collective over `comm`. Raises ConfigError, DataError."""
    output, has_ids = Path(output), "row_ids" in dataset.file
    table = make_table(model, output, has_ids, describe_rule(model, top), text_format)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
    writer = open_stream if str(output) == STANDARD_OUTPUT else open_parts
    with writer(comm, table, output, force, [model.path, dataset.path]) as write:
        shard = load_shard(comm, dataset, split, unlabelled=True)
        prediction = Prediction(comm, model, shard, top)
        ids = partial(read_ids, dataset, shard.first_row + shard.rows) if has_ids else None

        def find_labels() -> Iterator[RowLabels]:
            with closing(Progress(log, "scoring rows (rank 0)", shard.rows.size)) as progress:
                for row_labels in prediction.find(shard, ids, mask_empty_texts(dataset, shard)):
                    dataset.check_unchanged()
                    yield row_labels
                    progress.update(prediction.n_rows)

        write(find_labels())
    prediction.finish(log, output, "" if has_ids else "; the data have no ids, so id is the row number from 0")


def write_scores(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, output: Path, force: bool, log: Log) -> None:
    """Write the scores (n, n_labels) of a split's rows to HDF5. Collective over `comm`. Raises ConfigError, DataError."""
    output = Path(output)
    if output.suffix.lower() != ".h5":
        raise OptionError("all_scores", True, f"{output}: all scores are written as HDF5; the name must end in .h5")
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
    with new_file(comm, output, force, [model.path, dataset.path]) as out:
        shard = load_shard(comm, dataset, split, unlabelled=True)
        prediction = Prediction(comm, model, shard)

        def describe(file: h5py.File) -> None:
            stamp(file, "scores")
            file.attrs["split"] = split
            file.attrs.update(about(model, describe_rule(model, None)))
            write_strings(file, "label_names", model.label_names)
            write_label_titles(file, model.label_titles)
            columns = {"threshold": model.thresholds, **dict(zip(SIGMOID, model.sigmoids or (), strict=False))}
            for name, values in columns.items():
                file.create_dataset(f"labels/{name}", data=values)
            if "row_ids" in dataset.file:
                rows = dataset.split(split)
                ids = create_strings(file, "row_ids", rows.size)
                for begin in range(0, rows.size, NAME_CHUNK):
                    block = read_ids(dataset, rows, begin, min(begin + NAME_CHUNK, rows.size))
                    ids[begin : begin + len(block)] = np.array(block, dtype=object)

        out.layout({"scores": Slab((shard.n_global, model.n_labels), "<f8"), "rows": Slab((shard.n_global,), "<i8")}, describe)
        with mpi.agreed(comm, f"writing {output}"), closing(Progress(log, "scoring rows (rank 0)", shard.rows.size)) as progress:
            out.write("rows", shard.first_local, shard.first_row + shard.rows)
            for first, scores in prediction.score(shard):
                dataset.check_unchanged()
                out.write("scores", first, scores)
                progress.update(first - shard.first_local + scores.shape[0])
    log(f"{output}: scores of {plural(shard.n_global, 'row')} for {plural(model.n_labels, 'label')}")
    _, (n_empty,) = mpi.exclusive_sum(comm, [int(np.count_nonzero(mask_empty_texts(dataset, shard)))])
    if n_empty:
        log(f"warning: {plural(int(n_empty), 'row')} without known features: their scores are not meaningful")


Write: TypeAlias = "Callable[[Iterable[RowLabels]], None]"  # called with each rank's rows; output is in the order of the ranks


@contextmanager
def open_parts(comm: mpi.Comm, table: Table, output: Path, force: bool, inputs: list[Path]) -> Iterator[Write]:
    """Yield a function that is called once: ranks write separate files, which are then joined. Collective over `comm`."""
    with temporary_path(comm, output, force, inputs) as temporary:
        parts = [temporary.with_name(f"{temporary.name}-{rank}") for rank in range(comm.size)]
        part = parts[comm.rank] if comm.rank or isinstance(table, BinaryTable) else temporary
        n_lines = size = 0

        def write(blocks: Iterable[RowLabels]) -> None:
            nonlocal n_lines, size
            with mpi.agreed(comm, f"writing {output}"), part.open("wb") as file:
                if comm.rank == 0:
                    file.write(table.begin)
                for block in blocks:
                    n_lines += block.labels.size
                    file.writelines(table.encode(block))
                if comm.rank == comm.size - 1:
                    file.write(table.end)
                size = file.tell()

        try:
            yield write
            (_, offset), (n_all, _) = mpi.exclusive_sum(comm, [n_lines, size])
            with mpi.agreed(comm, f"writing {output}"):
                if isinstance(table, BinaryTable):
                    if comm.rank == 0:
                        table.write(temporary, parts, int(n_all), output)
                elif comm.rank != 0:
                    with part.open("rb") as source, temporary.open("rb+") as target:
                        target.seek(int(offset))
                        shutil.copyfileobj(source, target, COPY_BYTES)
        finally:
            if part != temporary:
                part.unlink(missing_ok=True)


@contextmanager
def open_stream(comm: mpi.Comm, table: Table, output: Path, force: bool, inputs: list[Path]) -> Iterator[Write]:
    """Yield a function for repeated calls: rank 0 writes the rows of all ranks. `output` may be "-". Collective over `comm`."""
    to_standard = str(output) == STANDARD_OUTPUT
    name = "standard output" if to_standard else str(output)
    with ExitStack() as stack:
        temporary = Path() if to_standard else stack.enter_context(temporary_path(comm, output, force, inputs))
        part = temporary.with_name(f"{temporary.name}-0") if isinstance(table, BinaryTable) else temporary
        file: Any = None
        with mpi.agreed(comm, f"writing {name}"):
            if comm.rank == 0 and to_standard and sys.stdout is None:
                raise DataError("standard output is closed; name a file")
            if comm.rank == 0:
                file = stack.enter_context(open(1 if to_standard else part, "wb", buffering=0, closefd=not to_standard))
                if part != temporary:
                    stack.callback(part.unlink)
        header, n_lines = [table.begin], 0

        def write_all(text: bytes) -> None:
            rest = memoryview(text)
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError as error:
                raise file_error(name, "write", error) from None

        def encode(blocks: Iterable[RowLabels]) -> Iterator[bytes]:
            nonlocal n_lines
            if comm.rank == 0 and header:
                yield header.pop()
            for block in blocks:
                n_lines += block.labels.size
                yield from table.encode(block)

        def write(blocks: Iterable[RowLabels]) -> None:
            mpi.stream_to_root(comm, encode(blocks), write_all)

        yield write
        write(())  # writes the header if there were no rows
        _, (n_all,) = mpi.exclusive_sum(comm, [n_lines])
        with mpi.agreed(comm, f"writing {name}"):
            if comm.rank == 0:
                write_all(table.end)
                if isinstance(table, BinaryTable):
                    table.write(temporary, [part], int(n_all), output)


def describe_rule(model: Trained, top: int | None) -> str:
    if top is not None:
        return f"the best of each row (--top {top})"
    return f"by thresholds ({model.threshold_source})" if model.threshold_source else "by scores above 0"
