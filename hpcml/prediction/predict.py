"""Scoring rows with a model, to HDF5, CSV or svmlight: streaming, the same bytes on any ranks.

The rows are those of a dataset (`predict`), or of an svmlight text as they come, one block in memory (`predict_stream`).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard, load_shard, without_features
from hpcml.data.svmlight import BLOCK_BYTES, STANDARD_INPUT, SvmlightStream
from hpcml.errors import ConfigError, DataError, OptionError, file_error
from hpcml.evaluation.hints import hint_at_few_labels
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.top import InvertedTop, top_of
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import NAME_CHUNK, describe_matrix, matrix_slabs, stamp, write_label_titles, write_strings
from hpcml.files.lines import LINE_MIB
from hpcml.files.slabs import Slab, SlabFile, new_file
from hpcml.files.spool import Spool, slices
from hpcml.files.table import escaped_name
from hpcml.log import Log, Progress, plural
from hpcml.model.scoring import WEIGHT_BYTES, BlockWeights, make_scorer
from hpcml.model.trained import Trained
from hpcml.partition import offsets
from hpcml.prediction import texts
from hpcml.prediction.texts import ScoredRows, What

CHUNK_BYTES = 1 << 27  # the scores (or flags) of a chunk of rows for all labels
MAX_ROWS = 1 << 16
COPY_BYTES = 1 << 24
STANDARD_OUTPUT = "-"
MAX_BLOCK_BYTES = 1 << 26  # of a text
FORMATS = (".h5", *texts.TEXT_FORMATS)  # of scores and labels; and BioASQ's, of labels only


class Prediction:
    """Predictions for rows, chunk by chunk: scores, which `convert_scores` makes probabilities, or flags."""

    def __init__(
        self, comm: mpi.Comm, model: Trained, what: What, shard: Shard, top: int | None = None, dataset: DataFile | None = None
    ) -> None:
        """`shard`: this rank's rows, maybe none; `top`: labels per row; `dataset` has the rows' ids. Collective over `comm`."""
        self.comm, self.model, self.what, self.shard, self.dataset = comm, model, what, shard, dataset
        self.has_ids = dataset is not None and "row_ids" in dataset.file
        self.n_given = 0  # labels that this rank's rows have got, where labels are asked for
        self.empty = None if dataset is None else without_features(dataset, shard)  # flags of this rank's rows, which get no labels
        self._sigmoids = model.check_probabilities() if what == "probabilities" else None  # make probabilities of the scores
        self.scorer = make_scorer(model, shard, np.arange(model.n_labels))
        self.scorer.warm_up(comm)
        self.keeps_weights = self.room_for_weights(model)  # expanded once, and not for every chunk
        self._weights = BlockWeights(self.keeps_weights)
        self.best: Any = None if top is None else top_of(comm, self.scorer, top, self.keeps_weights)  # finds the best labels
        self.n_best = None if top is None else self.best.size  # labels of a row that are written, where only the best ones are

    @cached_property
    def escaped_names(self) -> list[str]:
        """The names of the labels as they are joined by `;`."""
        return [escaped_name(name) for name in self.model.label_names]

    def ids(self, rows: np.ndarray) -> list[str]:
        """Return the ids of ascending rows of the dataset."""
        first, last = (int(rows[0]), int(rows[-1])) if rows.size else (0, -1)
        found = self.dataset.strings("row_ids", first, last + 1) or []
        return [found[row - first] for row in rows.tolist()]

    @staticmethod
    def room_for_weights(model: Trained) -> bool:
        """Whether there is room for the weights of all labels, expanded."""
        combination = getattr(model, "combination", None)
        parts = 1 if combination is None else combination.n_parts
        return 8 * parts * model.n_labels * model.n_features <= WEIGHT_BYTES

    def hint(self, log: Log, n_rows: int) -> None:
        """Collective. Say if these rows got far fewer labels than training rows have."""
        if self.what == "labels":
            _, (n_given,) = mpi.exclusive_sum(self.comm, [self.n_given])
            hint_at_few_labels(log, int(n_given), n_rows, self.model, self.dataset)

    def convert_scores(self, scores: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        """The scores (n × L, or n × k of such labels), or their probabilities, as written."""
        return scores if self._sigmoids is None else probabilities(scores, *self._sigmoids, labels)

    def scored(self, shard: Shard) -> Iterator[ScoredRows]:
        """Score a shard's rows for all labels, or find the best. Local. Raises NonFiniteError."""
        scorer: Any = make_scorer(self.model, shard, self.scorer.labels)
        flags, thresholds = self.what == "labels", self.model.thresholds
        width = (1 if flags else 8) * self.model.n_labels if self.n_best is None else 12 * self.n_best
        step = max(1, min(MAX_ROWS, CHUNK_BYTES // max(1, width)))
        for begin in range(0, shard.n_local, step):
            some = shard.rows[begin : begin + step]
            first, rows = shard.first_local + begin, shard.first_row + some
            empty = None if self.empty is None else self.empty[begin : begin + step]
            if self.best is not None:
                best = self.best.best(scorer, some)
                yield ScoredRows(first, rows, best.scores, best.labels, empty)
                continue
            values: np.ndarray = np.empty((some.size, self.model.n_labels), dtype=np.bool_ if flags else np.float64)
            for block, scores in self._weights.scores(scorer, some):
                values[:, block] = scores > thresholds[block] if flags else scores
            if flags:
                if empty is not None:
                    values[empty] = False
                self.n_given += int(np.count_nonzero(values))
            yield ScoredRows(first, rows, values, None, empty)

    def chunks(self, log: Log) -> Iterator[ScoredRows]:
        """Score the shard, rows of the dataset, with progress. Local. Raises NonFiniteError if a score is not a number."""
        done = 0
        with closing(Progress(log, "scoring rows (rank 0)", self.shard.n_local)) as progress:
            for chunk in self.scored(self.shard):
                self.dataset.check_unchanged()
                yield chunk
                done += chunk.rows.size
                progress.update(done)


def predict(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str,
    output: Path,
    what: What,
    force: bool,
    log: Log,
    top: int | None = None,
) -> None:
    """Collective over `comm`. Write scores, probabilities or labels of a split's rows to `output`.

    With `top`, only the scores of the `top` best labels of each row (of equal scores those
    with the lower numbers). Raises ConfigError for an ending of `output` that is not known, for an
    existing output without `force` and for an unknown split; DataError if model and data do not fit
    or a file cannot be read or written.
    """
    output = Path(output)
    ending = output.suffix.lower()
    known = (*FORMATS, texts.BIOASQ)
    if ending not in known:
        raise ConfigError(f"{output}: unknown kind of file {ending!r}; the name must end in one of {', '.join(known)}")
    texts.check_what(what, top, ending)
    if what == "probabilities":
        model.check_probabilities()
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
    opened: Any = new_file if ending == ".h5" else temporary_path
    with opened(comm, output, force, [model.path, dataset.path]) as out:
        prediction = Prediction(comm, model, what, load_shard(comm, dataset, split, unlabelled=True), top, dataset)
        if ending == ".h5":
            _write_h5(prediction, split, log, out)
        else:
            _write_text(prediction, ending, log, out, output)
    n_rows = prediction.shard.n_global
    log(f"{output}: {texts.what_is_written(what, top, model)} of {plural(n_rows, 'row')} for {plural(model.n_labels, 'label')}")
    _, (n_empty,) = mpi.exclusive_sum(comm, [int(np.count_nonzero(prediction.empty))])
    if n_empty:
        without = f"{plural(int(n_empty), 'row')} without any known feature"
        log(f"note: {without}: {'their scores say nothing' if what != 'labels' and top is None else 'they get no labels'}")
    prediction.hint(log, n_rows)


def _write_h5(prediction: Prediction, split: str, log: Log, out: SlabFile) -> None:
    """Write `rows` (n) and, of these, `scores` or `probabilities` (n × L), `top/` these and `labels`, or `Y` (n × L, CSR).

    The labels of all rows wait outside of memory until their number is known. Collective.
    """
    comm, shard, what, k, n_labels = (
        prediction.comm,
        prediction.shard,
        prediction.what,
        prediction.n_best,
        prediction.model.n_labels,
    )
    n_rows, first, nnz = shard.n_global, 0, 0
    counts = np.zeros(shard.n_local if what == "labels" else 0, dtype=np.int64)
    given = Spool(out.path.parent, matrix_slabs("Y", 0, 0, n_labels, None)["Y/indices"].dtype)
    slabs: dict[str, Slab] = {what: Slab((n_rows, n_labels), "<f8")}
    if what == "labels":
        with mpi.agreed(comm, f"writing {out.target}"):
            for chunk in prediction.chunks(log):
                counts[chunk.first - shard.first_local :][: chunk.rows.size] = chunk.values.sum(axis=1)
                given.append(np.nonzero(chunk.values)[1])
        (first,), (nnz,) = mpi.exclusive_sum(comm, [given.size])
        slabs = matrix_slabs("Y", n_rows, int(nnz), n_labels, None)
    elif k is not None:
        slabs = {"top/labels": Slab((n_rows, k), "<i4"), f"top/{what}": Slab((n_rows, k), "<f8")}

    def describe(file: h5py.File) -> None:
        if what == "labels":
            describe_matrix(file, "Y", n_rows, n_labels, int(nnz), ones=True)
        stamp(file, "scores")
        file.attrs["split"] = split
        write_strings(file, "label_names", prediction.model.label_names)
        write_label_titles(file, prediction.model.label_titles)
        if prediction.has_ids:
            rows = prediction.dataset.split(split)
            ids = file.create_dataset("row_ids", shape=rows.shape, dtype=h5py.string_dtype())
            for begin in range(0, rows.size, NAME_CHUNK):
                some = rows[begin : begin + NAME_CHUNK]
                ids[begin : begin + some.size] = np.array(prediction.ids(some), dtype=object)

    out.layout({**slabs, "rows": Slab((n_rows,), "<i8")}, describe)
    with mpi.agreed(comm, f"writing {out.target}"):
        out.write("rows", shard.first_local, shard.first_row + shard.rows)
        if what == "labels":
            if comm.rank == 0:
                out.write("Y/indptr", 0, np.zeros(1))
            out.write("Y/indptr", shard.first_local + 1, first + np.cumsum(counts))
            for some in slices(given.size):
                out.write("Y/indices", int(first) + some.start, given[some])
            return
        for chunk in prediction.chunks(log):
            shown, best = prediction.convert_scores(chunk.values, chunk.best), chunk.best
            if best is not None and chunk.empty is not None:
                best, shown = np.where(chunk.empty[:, None], -1, best), np.where(chunk.empty[:, None], np.nan, shown)
            for name, values in zip(slabs, [shown] if best is None else [best, shown], strict=True):
                out.write(name, chunk.first, values)


def _write_text(prediction: Prediction, ending: str, log: Log, temporary: Path, output: Path) -> None:
    """Write this rank's rows as text; all ranks but 0 into parts, which are copied behind. Collective."""
    comm, lines = prediction.comm, texts.TEXT_FORMATS.get(ending, texts.bioasq_lines)
    part = temporary if comm.rank == 0 else temporary.with_name(f"{temporary.name}-{comm.rank}")
    try:
        with mpi.agreed(comm, f"writing {output}"), part.open("wb") as file:
            if comm.rank == 0:
                file.write(lines(prediction, None).encode())
            for piece in (piece for chunk in prediction.chunks(log) for piece in chunk.pieces()):
                file.write(lines(prediction, piece).encode())
            if comm.rank == comm.size - 1 and ending == texts.BIOASQ:
                file.write(texts.BIOASQ_END.encode())
            size = file.tell()
        (offset,), _ = mpi.exclusive_sum(comm, [size])
        with mpi.agreed(comm, f"writing {output}"):
            if comm.rank != 0:
                with part.open("rb") as source, temporary.open("rb+") as target:
                    target.seek(int(offset))
                    shutil.copyfileobj(source, target, COPY_BYTES)
    finally:
        if comm.rank != 0:
            part.unlink(missing_ok=True)


def predict_stream(
    comm: mpi.Comm,
    model: Trained,
    source: str | Path,
    output: Path,
    what: What,
    force: bool,
    log: Log,
    top: int | None = None,
    zero_based: bool = False,
    text_format: str | None = None,
    max_line: int = LINE_MIB << 20,
) -> None:
    """Collective over `comm`. Write the scores, probabilities or labels of rows of svmlight text.

    `source` and `output` are paths, or "-" for standard input and output; then `text_format` is "csv"
    (by default) or "svm". The lines are those that `predict` writes for the dataset made from the
    text. The labels in the text are passed over. A text does not name its features: they go by number,
    from 1 (`zero_based`: 0), not by the names of the model's features. Larger indices are
    left out, and counted in the log. A line has at most `max_line` bytes.

    Raises ConfigError for an unknown format, for a model of text with other numbering and for an
    existing output without `force`; DataError if the text is not svmlight (with the line), or
    something cannot be read or written.
    """
    to_standard = str(output) == STANDARD_OUTPUT
    name = "standard output" if to_standard else str(output)
    ending = f".{text_format or 'csv'}" if to_standard else Path(output).suffix.lower()
    if ending == ".h5":
        raise ConfigError(f"{name}: a text becomes .csv or .svm only, row by row; for .h5 make a dataset of it (hpcml convert)")
    if ending not in texts.TEXT_FORMATS:
        endings = ", ".join(texts.TEXT_FORMATS)
        raise ConfigError(f"{name}: unknown kind of file {ending!r}; the name must end in one of {endings}")
    lines = texts.TEXT_FORMATS[ending]
    if text_format is not None and texts.TEXT_FORMATS.get(f".{text_format}") is not lines:
        raise OptionError("format", text_format, f"does not fit the ending of {name}; remove it")
    model.check_numbering(zero_based)
    texts.check_what(what, top)
    if what == "probabilities":
        model.check_probabilities()
    inputs = [model.path, *([] if str(source) == STANDARD_INPUT else [Path(source)])]
    with ExitStack() as stack:
        temporary = None if to_standard else stack.enter_context(temporary_path(comm, output, force, inputs))
        file: Any = None
        with mpi.agreed(comm, f"writing {name}"):
            if comm.rank == 0 and to_standard and sys.stdout is None:
                raise DataError("standard output is closed; name a file")
            if comm.rank == 0:
                target = 1 if to_standard else temporary
                file = stack.enter_context(open(target, "wb", buffering=0, closefd=not to_standard))

        def write(text: bytes) -> None:
            rest = memoryview(text)
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError as error:
                raise file_error(name, "write", error) from None

        none = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
        prediction = Prediction(comm, model, what, Shard.of_csr(none, model.n_features, model.n_labels), top)
        is_cheap = prediction.keeps_weights or isinstance(prediction.best, InvertedTop)  # to score a few rows at a time
        block_bytes = min(BLOCK_BYTES * comm.size, MAX_BLOCK_BYTES) if is_cheap else MAX_BLOCK_BYTES
        stream = stack.enter_context(SvmlightStream(comm, source, zero_based, max_line, block_bytes))
        log(f"{stream.name}: scoring rows as they come")
        mpi.stream_to_root(comm, [lines(prediction, None).encode()] if comm.rank == 0 else [], write)
        n_left_out = 0  # values of features that the model does not have
        for rows in stream.parts():
            indptr, indices, data = rows.indptr, rows.indices, rows.data
            known = indices < model.n_features
            if not known.all():
                n_left_out += int(np.count_nonzero(~known))
                indptr, indices, data = offsets(known)[indptr], indices[known], data[known]
            shard = Shard.of_csr((indptr, indices, data), model.n_features, model.n_labels, first_row=rows.first_row)
            pieces = (piece for chunk in prediction.scored(shard) for piece in chunk.pieces())
            mpi.stream_to_root(comm, (lines(prediction, piece).encode() for piece in pieces), write)
        _, (dropped,) = mpi.exclusive_sum(comm, [n_left_out])
    left_out = f"; left out: {plural(int(dropped), 'value')} of features that the model does not have" if dropped else ""
    n_rows, labels = plural(stream.n_rows, "row"), plural(model.n_labels, "label")
    log(f"{name}: {texts.what_is_written(what, top, model)} of {n_rows} for {labels}{left_out}")
    prediction.hint(log, stream.n_rows)
