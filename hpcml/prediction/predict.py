"""Scoring rows with a model, to HDF5, CSV or svmlight: streaming, the same bytes on any ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard, load_shard
from hpcml.errors import ConfigError, file_error
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.scoring import WEIGHT_BYTES, scorer_of
from hpcml.evaluation.top import InvertedTop, top_of
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import NAME_CHUNK, describe_matrix, matrix_slabs, stamp, write_label_titles, write_strings
from hpcml.files.slabs import Slab, SlabFile, new_file, write_at
from hpcml.files.table import csv_text, escaped_name
from hpcml.log import Log, Progress, plural
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model
from hpcml.prediction import bioasq
from hpcml.prediction.top import TOP_TEXT_FORMATS, TopChunk, What, check_what, what_is_written

CHUNK_BYTES = 1 << 27  # the scores (or flags) of a chunk of rows for all labels
MAX_ROWS = 1 << 16
TEXT_VALUES = 1 << 20
COPY_BYTES = 1 << 24


@dataclass
class ScoredRows:
    """Consecutive rows of the split: `values` (n × L) are scores, or flags if labels are wanted."""

    first: int  # the place of the first row in the split
    rows: np.ndarray  # row numbers of the dataset
    values: np.ndarray

    def labels(self, thresholds: np.ndarray | float = 0.0) -> list[list[int]]:
        """Each row's predicted labels: of flags or scores above their thresholds (n_labels)."""
        rows, labels = np.nonzero(self.values > thresholds)
        bounds = np.searchsorted(rows, np.arange(self.rows.size + 1))
        return [labels[a:b].tolist() for a, b in pairwise(bounds)]

    def pieces(self) -> Iterator[ScoredRows]:
        """The chunk in pieces of about TEXT_VALUES values, small enough to be formatted."""
        step = max(1, TEXT_VALUES // max(1, self.values.shape[1]))
        for a in range(0, self.rows.size, step):
            yield ScoredRows(self.first + a, self.rows[a : a + step], self.values[a : a + step])


class Prediction:
    """Predictions for rows, chunk by chunk: scores, which `shown` makes probabilities, or flags."""

    has_ids = False
    _sigmoids: tuple[np.ndarray, np.ndarray] | None = None  # what makes probabilities of the scores, if they are asked for

    @mpi.collective
    def __init__(self, comm: mpi.Comm, model: Model | ClassifierModel, what: What, shard: Shard, top: int | None = None) -> None:
        """Collective over `comm`. `shard`: this rank's rows, or none; `top`: labels of each."""
        self.comm, self.model, self.what = comm, model, what
        if what == "probabilities":
            self._sigmoids = model.check_probabilities()
        self.scorer = scorer_of(model, shard, np.arange(model.n_labels))
        self.scorer.warm_up(comm)
        self._kept: list[tuple[np.ndarray, ...]] | None = None
        self._top = None if top is None else top_of(comm, self.scorer, top, self.keeps_weights)

    @property
    def n_best(self) -> int:
        """How many labels of a row are written, where only the best ones are."""
        return self._top.size

    @cached_property
    def escaped_names(self) -> list[str]:
        """The names of the labels as they are joined by `;`."""
        return [escaped_name(name) for name in self.model.label_names]

    def ids(self, rows: np.ndarray) -> list[str]:
        """The row ids of ascending row numbers; none of rows that have none."""
        return []

    @property
    def keeps_weights(self) -> bool:
        """Whether the weights of all labels are expanded once, and not for every chunk."""
        return self.room_for_weights(self.model)

    @staticmethod
    def room_for_weights(model: Model | ClassifierModel) -> bool:
        """Whether there is room for the weights of all labels, expanded."""
        combination = getattr(model, "combination", None)
        parts = 1 if combination is None else combination.n_parts
        return 8 * parts * model.n_labels * model.n_features <= WEIGHT_BYTES

    @property
    def is_cheap(self) -> bool:
        """Whether scoring a few rows at a time costs no more than many at once."""
        return self.keeps_weights or isinstance(self._top, InvertedTop)

    def shown(self, scores: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        """The scores (n × L, or n × k of such labels), or their probabilities, as written."""
        return scores if self._sigmoids is None else probabilities(scores, *self._sigmoids, labels)

    def scored(self, shard: Shard) -> Iterator[Any]:
        """Score a shard's rows: `ScoredRows`, or with `top` `TopChunk`. Raises NonFiniteError."""
        return self._scores(shard) if self._top is None else self._best(shard)

    def _best(self, shard: Shard) -> Iterator[TopChunk]:
        """Find the best labels of the rows of a shard. Local."""
        scorer: Any = scorer_of(self.model, shard, self.scorer.labels)
        step = max(1, min(MAX_ROWS, CHUNK_BYTES // (12 * max(1, self.n_best))))
        for begin in range(0, shard.n_local, step):
            some = shard.rows[begin : begin + step]
            best = self._top.best(scorer, some)
            yield TopChunk(shard.first_local + begin, shard.first_row + some, best.labels, best.scores)

    def _scores(self, shard: Shard) -> Iterator[ScoredRows]:
        """Score the rows of a shard for all labels. Local."""
        model, rows, scorer = self.model, shard.rows, scorer_of(self.model, shard, self.scorer.labels)
        if self._kept is None and self.keeps_weights:
            self._kept = [scorer.weights(*block) for block in scorer.blocks]
        dtype = np.dtype(np.bool_ if self.what == "labels" else np.float64)
        step = max(1, min(MAX_ROWS, CHUNK_BYTES // (dtype.itemsize * max(1, model.n_labels))))
        thresholds = model.thresholds
        for begin in range(0, rows.size, step):
            some = rows[begin : begin + step]
            values = np.empty((some.size, model.n_labels), dtype=dtype)
            for number, block in enumerate(scorer.blocks):
                scores = scorer.rows_scores(some, *(self._kept[number] if self._kept else scorer.weights(*block)))
                scorer.check_numbers(scores.max(axis=0), scorer.labels[slice(*block)])
                values[:, slice(*block)] = scores > thresholds[slice(*block)] if self.what == "labels" else scores
            yield ScoredRows(shard.first_local + begin, shard.first_row + some, values)


class DatasetPrediction(Prediction):
    """This rank's share of the prediction of a split."""

    @mpi.collective
    def __init__(
        self,
        comm: mpi.Comm,
        model: Model | ClassifierModel,
        dataset: DataFile,
        split: str,
        what: What,
        log: Log,
        top: int | None = None,
    ) -> None:
        """Collective over `comm`. Raises ConfigError for an unknown split, or DataError."""
        self.dataset, self.split, self.log = dataset, split, log
        self.shard = load_shard(comm, dataset, split)
        super().__init__(comm, model, what, self.shard, top)
        self.has_ids = "row_ids" in dataset.file

    def ids(self, rows: np.ndarray) -> list[str]:
        """The row ids of ascending row numbers."""
        first, last = (int(rows[0]), int(rows[-1])) if rows.size else (0, -1)
        found = self.dataset.strings("row_ids", first, last + 1) or []
        return [found[row - first] for row in rows.tolist()]

    def chunks(self) -> Iterator[Any]:
        """Score this rank's rows. Local. Raises NonFiniteError if a score is not a number."""
        progress, done = Progress(self.log, "scoring rows (rank 0)", self.shard.n_local), 0
        try:
            for chunk in self.scored(self.shard):
                self.dataset.check_unchanged()
                yield chunk
                done += chunk.rows.size
                progress.update(done)
        finally:
            progress.close()


def csv_lines(prediction: Prediction, chunk: ScoredRows | None) -> str:
    """Lines `row,id?,score...` or `row,id?,labels` (`joined_names`); the header for None."""
    if chunk is None:
        wanted = ["labels"] if prediction.what == "labels" else prediction.model.label_names
        return csv_text([["row", *(["id"] if prediction.has_ids else []), *wanted]])
    ids: list[list[str]] = [[name] for name in prediction.ids(chunk.rows)] if prediction.has_ids else [[]] * chunk.rows.size
    if prediction.what != "labels":
        shown = prediction.shown(chunk.values)
        return csv_text([row, *name, *values.tolist()] for row, name, values in zip(chunk.rows, ids, shown, strict=True))
    cells = (";".join(prediction.escaped_names[label] for label in labels) for labels in chunk.labels())
    return csv_text([row, *name, labels] for row, name, labels in zip(chunk.rows, ids, cells, strict=True))


def svmlight_lines(prediction: Prediction, chunk: ScoredRows | None) -> str:
    """Lines `LABEL,LABEL l:score l:score ...`, or `LABEL,LABEL 1:1`, from 1. No header."""
    if chunk is None:
        return ""
    lines, thresholds = [], 0.0 if prediction.what == "labels" else prediction.model.thresholds
    for labels, values in zip(chunk.labels(thresholds), prediction.shown(chunk.values), strict=True):
        target = ",".join(str(label + 1) for label in labels)
        if prediction.what != "labels":
            rest = " ".join(f"{number}:{score!r}" for number, score in enumerate(values.tolist(), 1))
        else:
            rest = "1:1"  # readers skip blank lines, so a row without labels must not be one
        lines.append(f"{target} {rest}\n")
    return "".join(lines)


Lines = Callable[[Prediction, Any], str]  # of a ScoredRows, or of a TopChunk where only the best labels are written
TEXT_FORMATS: dict[str, Lines] = {
    ".csv": csv_lines,
    ".svm": svmlight_lines,
    ".svmlight": svmlight_lines,
}
FORMATS = (".h5", *TEXT_FORMATS)  # of scores and labels; and bioasq.ENDING, of labels only


def lines_of(ending: str, top: int | None) -> Lines:
    """The writer of the lines of a text."""
    if ending == bioasq.ENDING:
        return bioasq.bioasq_lines
    return (TEXT_FORMATS if top is None else TOP_TEXT_FORMATS)[ending]


@mpi.collective
def predict(
    comm: mpi.Comm,
    model: Model | ClassifierModel,
    dataset: DataFile,
    split: str,
    output: Path,
    what: What,
    force: bool,
    log: Log,
    top: int | None = None,
) -> None:
    """Collective over `comm`. Write scores, probabilities or labels of a split's rows to `output`.

    With `top`, only the scores of so many labels of each row, the best ones (of equal scores those
    with the lower numbers). Raises ConfigError for an ending of `output` that is not known, for an
    existing output without `force` and for an unknown split; DataError if model and data do not fit
    or a file cannot be read or written.
    """
    output = Path(output)
    ending = output.suffix.lower()
    known = (*FORMATS, bioasq.ENDING)
    if ending not in known:
        raise ConfigError(f"{output}: unknown kind of file {ending!r}; the name must end in one of {', '.join(known)}")
    check_what(what, top)
    if ending == bioasq.ENDING:
        bioasq.check_bioasq(what, top)
    if what == "probabilities":
        model.check_probabilities()
    inputs = [model.path, dataset.path]
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
    if ending == ".h5":
        with new_file(comm, output, force, inputs) as out:
            prediction = DatasetPrediction(comm, model, dataset, split, what, log, top)
            fill = _fill_labels if what == "labels" else _fill_scores if top is None else _fill_top
            fill(prediction, out, output)
    else:
        with temporary_path(comm, output, force, inputs) as temporary:
            prediction = DatasetPrediction(comm, model, dataset, split, what, log, top)
            _write_text(prediction, lines_of(ending, top), temporary, output, bioasq.END if ending == bioasq.ENDING else "")
    rows, labels = plural(dataset.split(split).size, "row"), plural(model.n_labels, "label")
    log(f"{output}: {what_is_written(what, top, model)} of {rows} for {labels}")


def _describe(prediction: DatasetPrediction, file: h5py.File) -> None:
    """Write what a file of predictions holds beside the numbers."""
    stamp(file, "scores")
    file.attrs["split"] = prediction.split
    write_strings(file, "label_names", prediction.model.label_names)
    write_label_titles(file, prediction.model.label_titles)
    if prediction.has_ids:
        rows = prediction.dataset.split(prediction.split)
        ids = file.create_dataset("row_ids", shape=rows.shape, dtype=h5py.string_dtype())
        for begin in range(0, rows.size, NAME_CHUNK):
            some = rows[begin : begin + NAME_CHUNK]
            ids[begin : begin + some.size] = np.array(prediction.ids(some), dtype=object)


@mpi.collective
def _fill_scores(prediction: DatasetPrediction, out: SlabFile, output: Path) -> None:
    """Collective. `scores`, or `probabilities` (n × L float64), and `rows` (n)."""
    n_rows = prediction.shard.n_global
    slabs = {prediction.what: Slab((n_rows, prediction.model.n_labels), "<f8"), "rows": Slab((n_rows,), "<i8")}
    out.layout(slabs, lambda file: _describe(prediction, file))
    with mpi.agreed(prediction.comm, f"writing {output}"):
        for chunk in prediction.chunks():
            out.write(prediction.what, chunk.first, prediction.shown(chunk.values))
            out.write("rows", chunk.first, chunk.rows)


@mpi.collective
def _fill_top(prediction: DatasetPrediction, out: SlabFile, output: Path) -> None:
    """Collective. `top/labels`, `top/scores` or `top/probabilities` (n × k), and `rows` (n)."""
    shape = (prediction.shard.n_global, prediction.n_best)
    slabs = {"top/labels": Slab(shape, "<i4"), f"top/{prediction.what}": Slab(shape, "<f8"), "rows": Slab(shape[:1], "<i8")}
    out.layout(slabs, lambda file: _describe(prediction, file))
    with mpi.agreed(prediction.comm, f"writing {output}"):
        for chunk in prediction.chunks():
            shown = prediction.shown(chunk.scores, chunk.labels)
            for name, values in {"top/labels": chunk.labels, f"top/{prediction.what}": shown, "rows": chunk.rows}.items():
                out.write(name, chunk.first, values)


@mpi.collective
def _fill_labels(prediction: DatasetPrediction, out: SlabFile, output: Path) -> None:
    """Collective. `Y` (n × L, CSR, AnnData's encoding) and `rows`; labels wait in a part file."""
    comm, shard, n_labels = prediction.comm, prediction.shard, prediction.model.n_labels
    index = np.dtype(matrix_slabs("Y", 0, 0, n_labels, None)["Y/indices"].dtype)
    counts = np.zeros(shard.n_local, dtype=np.int64)
    part = out.path.with_name(f"{out.path.name}-{comm.rank}")
    try:
        with mpi.agreed(comm, f"writing {output}"), part.open("wb") as file:
            for chunk in prediction.chunks():
                counts[chunk.first - shard.first_local :][: chunk.rows.size] = chunk.values.sum(axis=1)
                append(file, np.nonzero(chunk.values)[1].astype(index).tobytes(), output)
        (first,), (nnz,) = mpi.exclusive_sum(comm, [counts.sum()])
        slabs = {**matrix_slabs("Y", shard.n_global, int(nnz), n_labels, None), "rows": Slab((shard.n_global,), "<i8")}

        def describe(file: h5py.File) -> None:
            describe_matrix(file, "Y", shard.n_global, n_labels, int(nnz), ones=True)
            _describe(prediction, file)

        out.layout(slabs, describe)
        with mpi.agreed(comm, f"writing {output}"):
            if comm.rank == 0:
                out.write("Y/indptr", 0, np.zeros(1))
            out.write("Y/indptr", shard.first_local + 1, first + np.cumsum(counts))
            out.write("rows", shard.first_local, shard.first_row + shard.rows)
            for begin, data in _pieces(part):
                out.write("Y/indices", int(first) + begin // index.itemsize, np.frombuffer(data, dtype=index))
    finally:
        part.unlink(missing_ok=True)


@mpi.collective
def _write_text(prediction: DatasetPrediction, lines: Lines, temporary: Path, output: Path, end: str = "") -> None:
    """Collective. Each rank formats its rows; all but rank 0 into parts that are copied behind."""
    comm = prediction.comm
    part = temporary if comm.rank == 0 else temporary.with_name(f"{temporary.name}-{comm.rank}")
    try:
        with mpi.agreed(comm, f"writing {output}"), part.open("wb") as file:
            if comm.rank == 0:
                append(file, lines(prediction, None).encode(), output)
            for chunk in prediction.chunks():
                for piece in chunk.pieces():
                    append(file, lines(prediction, piece).encode(), output)
            if comm.rank == comm.size - 1:
                append(file, end.encode(), output)
            size = file.tell()
        (offset,), _ = mpi.exclusive_sum(comm, [size])
        with mpi.agreed(comm, f"writing {output}"):
            if comm.rank != 0:
                _copy(part, temporary, int(offset), output)
    finally:
        if comm.rank != 0:
            part.unlink(missing_ok=True)


def append(file: BinaryIO, data: bytes, output: Path | str) -> None:
    """Write all of `data` to a part of `output`. Raises DataError."""
    try:
        file.write(data)
        file.flush()
    except OSError as error:
        raise file_error(output, "write", error) from None


def _pieces(part: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of consecutive pieces of a file."""
    offset = 0
    with part.open("rb") as file:
        while data := file.read(COPY_BYTES):
            yield offset, data
            offset += len(data)


def _copy(part: Path, target: Path, offset: int, output: Path) -> None:
    """Copy a part to its place in `target`, which becomes `output`. Raises DataError."""
    try:
        with target.open("rb+") as file:
            for begin, data in _pieces(part):
                write_at(file.fileno(), memoryview(data), offset + begin, output)
    except OSError as error:
        raise file_error(output, "write", error) from None
