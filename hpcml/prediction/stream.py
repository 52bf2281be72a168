"""Scoring the rows of an svmlight text as they come, one block in memory: `predict`'s lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.data.svmlight_stream import BLOCK_BYTES, STANDARD_INPUT, SvmlightStream, TextRows
from hpcml.errors import ConfigError, DataError, file_error
from hpcml.files.atomic import temporary_path
from hpcml.files.lines import LINE_MIB
from hpcml.log import Log, plural
from hpcml.model.linear import Trained
from hpcml.partition import offsets
from hpcml.prediction.predict import Prediction
from hpcml.prediction.texts import TEXT_FORMATS, Lines, What, check_what, what_is_written

STANDARD_OUTPUT = "-"
MAX_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class StreamOptions:
    """How a text is read, and what is written of it."""

    zero_based: bool = False  # index i is the model's i-th feature, from 1, or from 0
    text_format: str | None = None  # "csv" (the default) or "svm", where the output's ending does not say it
    top: int | None = None  # so many labels of each row
    max_line: int = LINE_MIB << 20  # bytes that a line may have


def predict_stream(
    comm: mpi.Comm,
    model: Trained,
    source: str | Path,
    output: Path,
    what: What,
    force: bool,
    log: Log,
    options: StreamOptions = StreamOptions(),
) -> None:
    """Collective over `comm`. Write the scores, probabilities or labels of rows of svmlight text.

    `source` and `output` are paths, or "-" for standard input and output. The lines are those that
    `predict` writes for the dataset made from the text. The labels in the text are passed over. A
    text does not name its features: they go by number, whatever the names are that the model was
    trained by. Larger indices are left out, and counted in the log.

    Raises ConfigError for an unknown format, for a model of text with other numbering and for an
    existing output without `force`; DataError if the text is not svmlight (with the line), or
    something cannot be read or written.
    """
    lines, top = TEXT_FORMATS[_format(output, options.text_format)], options.top
    model.check_numbering(options.zero_based)
    check_what(what, top)
    if what == "probabilities":
        model.check_probabilities()
    inputs = [model.path, *([] if str(source) == STANDARD_INPUT else [Path(source)])]
    with _opened(comm, output, force, inputs) as file:
        prediction = Prediction(comm, model, what, _shard(TextRows.empty(), model), top)
        block_bytes = min(BLOCK_BYTES * comm.size, MAX_BLOCK_BYTES) if prediction.is_cheap else MAX_BLOCK_BYTES
        with SvmlightStream(comm, source, options.zero_based, options.max_line, block_bytes) as stream:
            log(f"{stream.name}: scoring rows as they come")
            dropped = _score(prediction, stream, lines, file, output)
    left_out = f"; left out: {plural(dropped, 'value')} of features that the model does not have" if dropped else ""
    rows, labels = plural(stream.n_rows, "row"), plural(model.n_labels, "label")
    log(f"{_name_of(output)}: {what_is_written(what, top, model)} of {rows} for {labels}{left_out}")
    prediction.hint(log, stream.n_rows)


def _format(output: Path, text_format: str | None) -> str:
    """The ending that says how to write rows. Raises ConfigError."""
    output = Path(output)
    ending = f".{text_format or 'csv'}" if str(output) == STANDARD_OUTPUT else output.suffix.lower()
    if ending == ".h5":
        raise ConfigError(f"{output}: a text becomes .csv or .svm only, row by row; for .h5 make a dataset of it (hpcml convert)")
    if ending not in TEXT_FORMATS:
        known = ", ".join(TEXT_FORMATS)
        raise ConfigError(f"{_name_of(output)}: unknown kind of file {ending!r}; the name must end in one of {known}")
    if text_format is not None and TEXT_FORMATS.get(f".{text_format}") is not TEXT_FORMATS[ending]:
        raise ConfigError(f"{output}: its ending and the format {text_format!r} are not one; leave the format out")
    return ending


def _name_of(output: Path) -> str:
    return "standard output" if str(output) == STANDARD_OUTPUT else str(output)


@contextmanager
def _opened(comm: mpi.Comm, output: Path, force: bool, inputs: list[Path]) -> Iterator[BinaryIO | None]:
    """Collective over `comm`. Rank 0's file to write to; a named one appears after the body."""
    is_standard = str(output) == STANDARD_OUTPUT
    with nullcontext() if is_standard else temporary_path(comm, output, force, inputs) as temporary:
        file: BinaryIO | None = None
        with mpi.agreed(comm, f"writing {_name_of(output)}"):
            if comm.rank == 0 and is_standard and sys.stdout is None:
                raise DataError("standard output is closed; name a file")
            if comm.rank == 0:
                file = open(1, "wb", closefd=False) if is_standard else temporary.open("wb")  # noqa: SIM115
        try:
            yield file
        finally:
            if file is not None:
                with suppress(OSError):  # everything is written or given up
                    file.close()


def _score(prediction: Prediction, stream: SvmlightStream, lines: Lines, file: BinaryIO | None, output: Path) -> int:
    """Collective. Write what is predicted; how many values of unknown features there are."""
    comm, dropped = prediction.comm, 0

    def write(text: bytes) -> None:
        try:
            file.write(text)
            file.flush()
        except OSError as error:
            raise file_error(_name_of(output), "write", error) from None

    mpi.stream_to_root(comm, [lines(prediction, None).encode()] if comm.rank == 0 else [], write)
    for rows in stream.parts():
        shard = _shard(rows, prediction.model)
        dropped += rows.indices.size - shard.indices.size
        chunks = (piece for chunk in prediction.scored(shard) for piece in chunk.pieces())
        mpi.stream_to_root(comm, (lines(prediction, chunk).encode() for chunk in chunks), write)
    return int(mpi.exclusive_sum(comm, [dropped])[1][0])


def _shard(rows: TextRows, model: Trained) -> Shard:
    """The rows, without labels and without the features that the model does not have."""
    indptr, indices, data = rows.indptr, rows.indices, rows.data
    known = indices < model.n_features
    if not known.all():
        indptr = offsets(known)[indptr]
        indices, data = indices[known], data[known]
    return Shard.of_csr((indptr, indices, data), model.n_features, model.n_labels, first_row=rows.first_row)
