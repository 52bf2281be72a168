"""Labels for a stream of records from a file or standard input, block by block and in parallel.

Rank 0 reads the records and sends each rank an equal part of a block. Converting texts to rows takes much longer than reading.
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
    STANDARD_INPUT,
    LineReader,
    SvmlightStream,
    check_standard_input,
    is_text,
    name_of,
)
from hpcml.errors import ConfigError, DataError, OptionError, nearest_name
from hpcml.evaluation.top import SparseTop
from hpcml.files.lines import LINE_MIB, plain_name
from hpcml.log import Log, named
from hpcml.model.trained import Trained
from hpcml.partition import even_bounds, offsets
from hpcml.prediction.predict import Prediction, describe_rule, open_stream
from hpcml.prediction.raw_rows import RowMaker
from hpcml.prediction.table import make_table

KINDS = ("jsonl", "csv", "tsv", "parquet")
MAX_BLOCK_BYTES = 1 << 26  # bytes of text per block
IS_FEATURE = "the column is a feature of the model"  # reason in error messages
RowBlock: TypeAlias = "tuple[Shard, list[str] | None, np.ndarray | None]"  # rows, their ids, and flags of rows without features
Chunk: TypeAlias = "tuple[Any, list[int]]"  # records and their line numbers


def kind_of_data(path: Path, source: str | None, model: Trained) -> str:
    """Return the kind of rows to score: `source` if given, else one of KINDS, "svmlight", or "" for a dataset. Raises DataError."""
    if source is not None:
        return source
    if str(path) == STANDARD_INPUT:
        return "jsonl" if model.raw_input is not None and model.raw_input.is_text else "svmlight"
    if not is_text(path):
        return ""
    ending = Path(plain_name(path)).suffix.lower().removeprefix(".")
    return ending if ending in KINDS else "svmlight"


class RecordStream:
    """Converts records to rows; a context manager. Iterate once over `blocks`."""

    n_left_out = 0  # see SvmlightRows

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
        """Open the source; "-" is standard input of rank 0. Collective over `comm`. Raises ConfigError, DataError."""
        check_standard_input(source)
        self.comm, self.name, self.kind, self.rows, self.n_rows = comm, name_of(source), kind, rows, 0
        self._id, self._delimiter, self._stack = id_column, delimiter, ExitStack()
        self.columns: tuple[list[str], list[str]] = [], []  # columns of numbers, and columns of texts and ids
        self.names, self.used = list[str](), ""  # all columns, and the used columns as text for the log
        self._chunks: Iterator[Chunk] = iter(())
        with mpi.agreed(comm, f"reading {self.name}"):
            if kind == "jsonl":
                _ = rows.fields  # raises ConfigError if the model was not trained on texts
            elif not rows.is_text:
                _ = rows.column_of  # raises ConfigError if the features have no names
            if comm.rank == 0:
                if kind == "parquet":
                    self._chunks = self._stack.enter_context(closing(self._read_parquet(Path(source))))
                else:
                    reader = self._stack.enter_context(closing(LineReader(source, block_bytes, max_line)))
                    self._chunks = self._read_lines(reader) if kind == "jsonl" else self._read_csv(reader, max_line)
                next(self._chunks)  # reads the header; each generator first yields an empty chunk
        self.columns, self.names, self._id = comm.bcast((self.columns, self.names, self._id))

    def __enter__(self) -> RecordStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _choose_columns(self, names: Sequence[str]) -> None:
        self.names = list(names)
        if self._id is None:
            raw_input = self.rows.model.raw_input
            id_column = "" if raw_input is None else str(raw_input.attributes.get("id_column", ""))
            self._id = next((name for name in (id_column, "id") if name in names), None)
        if self._id is not None and self._id not in names:
            near = nearest_name(self._id, names)
            raise OptionError(
                "id", self._id, f"{self.name} has no column with this name" + (f"; did you mean {near!r}?" if near else "")
            )
        try:
            numbers = [] if self.rows.is_text else self.rows.find_feature_columns(names)
            texts = self.rows.find_text_columns(names) if self.rows.is_text else ()
        except (ConfigError, DataError) as error:
            is_undelimited = self.kind == "csv" and len(names) == 1 and not {";", "\t", "|"}.isdisjoint(names[0])
            hint = "; the header has one column; set --delimiter" if is_undelimited else ""
            raise type(error)(f"{self.name}: {error}{hint}") from None
        self.columns = numbers, list(dict.fromkeys([*texts, *([] if self._id is None else [self._id])]))
        self.used = f"; texts: {', '.join(map(named, texts))}" if texts else ""
        self.used += "" if self._id is None else f"; ids: {named(self._id)}"

    def _read_lines(self, reader: LineReader) -> Generator[Chunk, None, None]:
        yield [], []
        for block, first in _blocks(reader):
            lines = list(BytesIO(block))
            numbers = [number for number, line in enumerate(lines) if not line.isspace()]
            yield [lines[number] for number in numbers], [first + number + 1 for number in numbers]

    def _read_csv(self, reader: LineReader, max_line: int) -> Generator[Chunk, None, None]:
        if self.kind == "csv":
            dialect = Dialect(self._delimiter or ",")
        else:
            dialect = Dialect(*UNQUOTED_TSV, "; for quoted values, use hpcml convert tsv --quotes")
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
        for _, line, record in rows.records(self.names, None):
            if isinstance(record, DataError):
                raise record
            values.append(record)
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
        for batch in batches_of(file, 0, n_rows, (), *self.columns, IS_FEATURE) if n_rows else ():
            yield batch.columns, list(range(self.n_rows + 1, self.n_rows + batch.n_rows + 1))

    @property
    def has_ids(self) -> bool:
        """Whether rows have ids. Documents without an id get their line number."""
        return self.kind == "jsonl" or self._id is not None

    def blocks(self) -> Iterator[RowBlock]:
        """Yield this rank's part of each block. Collective over `comm`. Raises DataError on all ranks."""
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
            (n_before,), (count,) = mpi.exclusive_sum(comm, [shard.n_local])
            first = self.n_rows + int(n_before)
            empty = np.diff(shard.indptr) == 0 if self.rows.is_text else None
            yield replace(shard, first_row=first, first_local=first), ids, empty
            self.n_rows += int(count)
        if self.n_rows == 0:
            raise DataError(f"{self.name}: no rows; expected at least one")

    def _make_rows(self, records: Any, lines: list[int]) -> tuple[list[str] | None, Shard]:
        if self.kind == "jsonl":
            documents = []
            for line, record in zip(lines, records, strict=True):
                try:
                    documents.append(parse_document(parse_json(record.removesuffix(b"\n")), self.rows.fields))
                except ValueError as error:
                    raise DataError(f"{self.name}: line {line}: {error}") from None
            ids = [document.row_id or str(line) for document, line in zip(documents, lines, strict=True)]
            return ids, self.rows.text_vectoriser([document.values for document in documents])
        if self.kind == "parquet":
            batch = Batch(len(lines), records, row_namer(self.name, lines[0] - 1 if lines else 0))
        else:
            batch = csv_batch(Path(self.name), records, lines, self.names, self.columns, IS_FEATURE)
        ids = None if self._id is None else names_in_column(batch, self._id)
        return ids, self.rows.convert_table(batch, self.names)


def _blocks(reader: LineReader) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines and the number of lines before them; waits for slow pipes."""
    while (pieces := reader.pieces(1)) != []:
        for text, first in pieces or ():
            yield text.tobytes(), first


def _part(records: Any, begin: int, end: int) -> Any:
    return {name: values[begin:end] for name, values in records.items()} if isinstance(records, dict) else records[begin:end]


class SvmlightRows(SvmlightStream):
    """Rows of svmlight text. Indices are feature numbers of the model; larger ones are ignored and counted. Labels are ignored."""

    has_ids, used = False, ""

    def __init__(
        self, comm: mpi.Comm, source: str | Path, model: Trained, zero_based: bool, max_line: int, block_bytes: int
    ) -> None:
        """Open the source. Collective over `comm`. Raises ConfigError if the numbering differs from the training text."""
        model.check_numbering(zero_based)
        super().__init__(comm, source, zero_based, max_line, block_bytes)
        self.model, self.n_left_out = model, 0  # ignored values in this rank's rows

    def blocks(self) -> Iterator[RowBlock]:
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
    """Write the labels of a stream of rows; `open_rows` takes the bytes per block. Collective over `comm`. Raises DataError."""
    prediction = Prediction(comm, model, Shard.of_csr(NO_ROWS, model.n_features, model.n_labels), top)
    is_cheap = prediction.keeps_weights or isinstance(prediction.best, SparseTop)  # few rows can be scored at a time
    with open_rows(min(BLOCK_BYTES * comm.size, MAX_BLOCK_BYTES) if is_cheap else MAX_BLOCK_BYTES) as rows:
        table = make_table(model, output, rows.has_ids, describe_rule(model, top), text_format)
        with open_stream(comm, table, output, force, inputs) as write:
            log(f"{rows.name}: scoring a stream of rows{rows.used}")
            for shard, ids, empty in rows.blocks():
                write(prediction.find(shard, None if ids is None else partial(_part, ids), empty))
    prediction.finish(log, output, "" if rows.has_ids else "; id is the row number from 0", rows.n_left_out)
