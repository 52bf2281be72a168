"""Label records of a file, or of standard input, as they come: a block at a time, in parallel.

Rank 0 reads the records and sends every rank an equal part of each block; making rows of texts takes far longer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hpcml import mpi
from hpcml.conversion.csv_file import UNQUOTED_TSV, CsvReader, Dialect, check_header, csv_batch
from hpcml.conversion.jsonl import parse_document, parse_json
from hpcml.conversion.parquet import batches_of, open_parquet
from hpcml.conversion.table import Batch, names_in_column, row_namer
from hpcml.data.shard import NO_ROWS, Shard
from hpcml.data.svmlight import (
    BLOCK_BYTES,
    PADDING,
    STANDARD_INPUT,
    LineReader,
    SvmlightStream,
    check_standard_input,
    is_text,
    name_of,
)
from hpcml.errors import ConfigError, DataError, OptionError, nearest_name
from hpcml.evaluation.top import InvertedTop
from hpcml.files.lines import LINE_MIB, plain_name
from hpcml.log import Log, named
from hpcml.model.trained import Trained
from hpcml.partition import even_bounds, offsets
from hpcml.prediction.predict import Prediction, open_stream, rule_of
from hpcml.prediction.raw_rows import RowMaker
from hpcml.prediction.table import make_table

KINDS = ("jsonl", "csv", "tsv", "parquet")
MAX_BLOCK_BYTES = 1 << 26  # of text
OF_MODEL = "the column is a feature of the model"
RowBlock: TypeAlias = "tuple[Shard, list[str] | None, np.ndarray | None]"  # rows, their ids, and flags of those without features
Chunk: TypeAlias = "tuple[Any, list[int]]"  # records, and the line of each; an empty one: no record has come yet


def kind_of_data(path: Path, given: str | None, model: Trained) -> str:
    """Return the kind of rows to score: one of KINDS, "svmlight", or "" for a dataset. Raises DataError."""
    if given is not None:
        return given
    if str(path) == STANDARD_INPUT:
        return "jsonl" if model.raw_input is not None and model.raw_input.is_text else "svmlight"
    if not is_text(path):
        return ""
    ending = Path(plain_name(path)).suffix.lower().removeprefix(".")
    return ending if ending in KINDS else "svmlight"


class RecordStream:
    """Rows of records, for a `with`: iterate once over `blocks`."""

    n_left_out = 0  # as of SvmlightRows

    def __init__(
        self,
        comm: mpi.Comm,
        source: str | Path,
        kind: str,
        rows: RowMaker,
        id_column: str | None = None,
        delimiter: str | None = None,
        max_line: int = LINE_MIB << 20,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """Collective over `comm`. `source` is a path, or "-": standard input of rank 0; `kind` is one of KINDS.

        Raises ConfigError, DataError for columns that are not those of the model, or a file that cannot be read.
        """
        check_standard_input(source)
        self.comm, self.name, self.kind, self.rows, self.n_rows = comm, name_of(source), kind, rows, 0
        self._id, self._delimiter, self._stack = id_column, delimiter, ExitStack()
        self.columns: tuple[list[str], list[str]] = [], []  # of tables: those of numbers, and those of texts and the id
        self.names, self.used = list[str](), ""  # used: what the log says of the columns
        self._chunks: Iterator[Chunk] = iter(())
        with mpi.agreed(comm, f"reading {self.name}"):
            if kind == "jsonl":
                _ = rows.fields  # the model must be one of texts
            elif not rows.is_text:
                _ = rows.column_of  # its features must have names
            if comm.rank == 0:
                if kind == "parquet":
                    self._chunks = self._stack.enter_context(closing(self._read_parquet(Path(source))))
                else:
                    reader = self._stack.enter_context(closing(LineReader(source, block_bytes, max_line)))
                    self._chunks = self._read_lines(reader) if kind == "jsonl" else self._read_csv(reader, max_line)
                next(self._chunks)  # the columns
        self.columns, self.names, self._id = comm.bcast((self.columns, self.names, self._id))

    def __enter__(self) -> RecordStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _choose_columns(self, names: Sequence[str]) -> None:
        """Set the columns that are read. Raises ConfigError, DataError."""
        self.names = list(names)
        if self._id is None:
            raw_input = self.rows.model.raw_input
            of_training = "" if raw_input is None else str(raw_input.attributes.get("id_column", ""))
            self._id = next((name for name in (of_training, "id") if name in names), None)
        if self._id is not None and self._id not in names:
            near = nearest_name(self._id, names)
            raise OptionError("id", self._id, f"{self.name} has no such column" + (f"; did you mean {near!r}?" if near else ""))
        try:
            numbers = [] if self.rows.is_text else self.rows.feature_columns(names)
            texts = self.rows.text_columns(names) if self.rows.is_text else ()
        except (ConfigError, DataError) as error:
            is_undivided = self.kind == "csv" and len(names) == 1 and not {";", "\t", "|"}.isdisjoint(names[0])
            hint = "; its header is one column: --delimiter tells where columns end" if is_undivided else ""
            raise type(error)(f"{self.name}: {error}{hint}") from None
        self.columns = numbers, list(dict.fromkeys([*texts, *([] if self._id is None else [self._id])]))
        self.used = f"; texts: {', '.join(map(named, texts))}" if texts else ""
        self.used += "" if self._id is None else f"; ids: {named(self._id)}"

    def _read_lines(self, reader: LineReader) -> Generator[Chunk, None, None]:
        yield [], []
        for block, first in _blocks(reader):
            lines = list(BytesIO(block))
            found = [number for number, line in enumerate(lines) if not line.isspace()]
            yield [lines[number] for number in found], [first + number + 1 for number in found]

    def _read_csv(self, reader: LineReader, max_line: int) -> Generator[Chunk, None, None]:
        if self.kind == "csv":
            dialect = Dialect(self._delimiter or ",")
        else:
            dialect = Dialect(*UNQUOTED_TSV, "; for values in quotation marks, use hpcml convert tsv --quotes")
        end = 0

        def lines() -> Iterator[bytes]:
            nonlocal end
            for block, _ in _blocks(reader):
                end += len(block)
                yield from BytesIO(block)

        path = Path(self.name)
        rows = CsvReader(path, lines(), 0, 0, dialect, max_line)
        names = rows.next_row()
        self._choose_columns(check_header(path, names))
        yield [], []
        values: list[list[str]] = []
        numbers: list[int] = []
        for _, line, found in rows.records(self.names, None):
            if isinstance(found, DataError):
                raise found
            values.append(found)
            numbers.append(line)
            if rows.at >= end:
                yield values, numbers
                values, numbers = [], []
        yield values, numbers

    def _read_parquet(self, path: Path) -> Generator[Chunk, None, None]:
        (file,) = open_parquet([path])
        self._choose_columns(file.names)
        yield [], []
        n_rows = sum(file.groups)
        for batch in batches_of(file, 0, n_rows, (), *self.columns, OF_MODEL) if n_rows else ():
            yield batch.columns, list(range(self.n_rows + 1, self.n_rows + batch.n_rows + 1))

    @property
    def has_ids(self) -> bool:
        """Whether rows have ids; those of JSON lines are line numbers where there is none."""
        return self.kind == "jsonl" or self._id is not None

    def blocks(self) -> Iterator[RowBlock]:
        """Collective over `comm`. Yield this rank's part of the next rows. Raises DataError on all."""
        comm = self.comm
        while True:
            chunk: Chunk | None = None
            pieces: list[Chunk] | None = None
            with mpi.agreed(comm, f"reading {self.name}"):
                if comm.rank == 0 and (chunk := next(self._chunks, None)) is not None:
                    records, lines = chunk
                    bounds = even_bounds(len(lines), comm.size).tolist()
                    pieces = [(_part(records, a, b), lines[a:b]) for a, b in pairwise(bounds)]
            if not comm.bcast(chunk is not None):
                break
            records, lines = comm.scatter(pieces)
            with mpi.agreed(comm, f"reading {self.name}"):
                ids, shard = self._make_rows(records, lines)
            (above,), (count,) = mpi.exclusive_sum(comm, [shard.n_local])
            first = self.n_rows + int(above)
            empty = np.diff(shard.indptr) == 0 if self.rows.is_text else None
            yield replace(shard, first_row=first, first_local=first), ids, empty
            self.n_rows += int(count)
        if self.n_rows == 0:
            raise DataError(f"{self.name}: no rows; expected at least one")

    def _make_rows(self, records: Any, lines: list[int]) -> tuple[list[str] | None, Shard]:
        """Make rows of records. Raises DataError."""
        if self.kind == "jsonl":
            documents = []
            for line, record in zip(lines, records, strict=True):
                try:
                    documents.append(parse_document(parse_json(record.removesuffix(b"\n")), self.rows.fields))
                except ValueError as error:
                    raise DataError(f"{self.name}: line {line}: {error}") from None
            ids = [document.row_id or str(line) for document, line in zip(documents, lines, strict=True)]
            return ids, self.rows.few_texts([document.values for document in documents])
        if self.kind == "parquet":
            batch = Batch(len(lines), records, row_namer(self.name, lines[0] - 1 if lines else 0))
        else:
            batch = csv_batch(Path(self.name), records, lines, self.names, self.columns, OF_MODEL)
        ids = None if self._id is None else names_in_column(batch, self._id)
        return ids, self.rows.table(batch, self.names)


def _blocks(reader: LineReader) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines, and the number of lines before them; waits for those of a slow pipe."""
    while (pieces := reader.pieces(1)) != []:
        for text, first in pieces or ():
            yield text[: text.size - len(PADDING)].tobytes(), first


def _part(records: Any, begin: int, end: int) -> Any:
    """Return records begin..end of a list, or of columns."""
    return {name: values[begin:end] for name, values in records.items()} if isinstance(records, dict) else records[begin:end]


class SvmlightRows(SvmlightStream):
    """Rows of svmlight text, whose indices are the places of the model's features; larger ones are left out, and counted.

    The labels in the text are passed over.
    """

    has_ids, used = False, ""

    def __init__(
        self, comm: mpi.Comm, source: str | Path, model: Trained, zero_based: bool, max_line: int, block_bytes: int
    ) -> None:
        """Collective over `comm`. Raises as `SvmlightStream`, and ConfigError for a model of text with other numbering."""
        model.check_numbering(zero_based)
        super().__init__(comm, source, zero_based, max_line, block_bytes)
        self.model, self.n_left_out = model, 0  # values of this rank's rows

    def blocks(self) -> Iterator[RowBlock]:
        """Yield this rank's part of the next rows. Collective."""
        for rows in self.parts():
            indptr, indices, data = rows.indptr, rows.indices, rows.data
            known = indices < self.model.n_features
            if not known.all():
                self.n_left_out += int(np.count_nonzero(~known))
                indptr, indices, data = offsets(known)[indptr], indices[known], data[known]
            csr = indptr, indices, data
            yield Shard.of_csr(csr, self.model.n_features, self.model.n_labels, first_row=rows.first_row), None, None


def predict_stream(
    comm: mpi.Comm,
    model: Trained,
    open_rows: Callable[[int], RecordStream | SvmlightRows],
    inputs: list[Path],
    output: Path,
    force: bool,
    log: Log,
    top: int | None = None,
    text_format: str | None = None,
) -> None:
    """Collective over `comm`. Write the labels of rows as they come, or the `top` best of each row.

    `open_rows` is given the bytes of text of a block. `output` may be "-" for standard output; then `text_format` is "csv" (by
    default), "tsv" or "jsonl". The lines are those that `predict` writes for a dataset made from the same rows.

    Raises ConfigError for an unknown format and an existing output without `force`; DataError if a file cannot be read or written.
    """
    prediction = Prediction(comm, model, Shard.of_csr(NO_ROWS, model.n_features, model.n_labels), top)
    is_cheap = prediction.keeps_weights or isinstance(prediction.best, InvertedTop)  # to score a few rows at a time
    with open_rows(min(BLOCK_BYTES * comm.size, MAX_BLOCK_BYTES) if is_cheap else MAX_BLOCK_BYTES) as rows:
        table = make_table(model, output, rows.has_ids, rule_of(model, top), text_format)
        with open_stream(comm, table, output, force, inputs) as write:
            log(f"{rows.name}: scoring rows as they come{rows.used}")
            for shard, ids, empty in rows.blocks():
                write(prediction.find(shard, None if ids is None else partial(_part, ids), empty))
    prediction.finish(log, output, None, "" if rows.has_ids else "; id is a row's number from 0", rows.n_left_out)
