"""Scoring rows with a model, to HDF5, CSV or svmlight: streaming, the same bytes on any ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard, load_shard
from hpcml.errors import ConfigError, file_error
from hpcml.evaluation.hints import hint_at_few_labels
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.scoring import WEIGHT_BYTES, BlockWeights, scorer_of
from hpcml.evaluation.top import InvertedTop, top_of
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import NAME_CHUNK, describe_matrix, matrix_slabs, stamp, write_label_titles, write_strings
from hpcml.files.slabs import Slab, SlabFile, new_file, write_at
from hpcml.files.table import escaped_name
from hpcml.log import Log, Progress, plural
from hpcml.model.linear import Trained
from hpcml.prediction import texts
from hpcml.prediction.texts import ScoredRows, What

CHUNK_BYTES = 1 << 27  # the scores (or flags) of a chunk of rows for all labels
MAX_ROWS = 1 << 16
COPY_BYTES = 1 << 24
FORMATS = (".h5", *texts.TEXT_FORMATS)  # of scores and labels; and BioASQ's, of labels only


class Prediction:
    """Predictions for rows, chunk by chunk: scores, which `shown` makes probabilities, or flags."""

    has_ids = False
    n_given = 0  # labels that this rank's rows have got, where labels are asked for
    _top: Any = None  # what finds the best labels, where only so many are asked for
    _sigmoids: tuple[np.ndarray, np.ndarray] | None = None  # what makes probabilities of the scores, if they are asked for

    def __init__(self, comm: mpi.Comm, model: Trained, what: What, shard: Shard, top: int | None = None) -> None:
        """Collective over `comm`. `shard`: this rank's rows, or none; `top`: labels of each."""
        self.comm, self.model, self.what = comm, model, what
        if what == "probabilities":
            self._sigmoids = model.check_probabilities()
        self.scorer = scorer_of(model, shard, np.arange(model.n_labels))
        self.scorer.warm_up(comm)
        self._weights = BlockWeights(self.keeps_weights)
        if top is not None:
            self._top = top_of(comm, self.scorer, top, self.keeps_weights)

    @property
    def n_best(self) -> int | None:
        """How many labels of a row are written, where only the best ones are; else None."""
        return None if self._top is None else self._top.size

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
    def room_for_weights(model: Trained) -> bool:
        """Whether there is room for the weights of all labels, expanded."""
        combination = getattr(model, "combination", None)
        parts = 1 if combination is None else combination.n_parts
        return 8 * parts * model.n_labels * model.n_features <= WEIGHT_BYTES

    @property
    def is_cheap(self) -> bool:
        """Whether scoring a few rows at a time costs no more than many at once."""
        return self.keeps_weights or isinstance(self._top, InvertedTop)

    def hint(self, log: Log, n_rows: int, dataset: DataFile | None = None) -> None:
        """Collective. Say if these rows got far fewer labels than training rows have."""
        if self.what == "labels":
            _, (n_given,) = mpi.exclusive_sum(self.comm, [self.n_given])
            hint_at_few_labels(log, int(n_given), n_rows, self.model, dataset)

    def shown(self, scores: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        """The scores (n × L, or n × k of such labels), or their probabilities, as written."""
        return scores if self._sigmoids is None else probabilities(scores, *self._sigmoids, labels)

    def scored(self, shard: Shard) -> Iterator[ScoredRows]:
        """Score a shard's rows for all labels, or find the best. Local. Raises NonFiniteError."""
        scorer: Any = scorer_of(self.model, shard, self.scorer.labels)
        flags, thresholds = self.what == "labels", self.model.thresholds
        width = (1 if flags else 8) * self.model.n_labels if self.n_best is None else 12 * self.n_best
        step = max(1, min(MAX_ROWS, CHUNK_BYTES // max(1, width)))
        for begin in range(0, shard.n_local, step):
            some = shard.rows[begin : begin + step]
            first, rows = shard.first_local + begin, shard.first_row + some
            if self._top is not None:
                best = self._top.best(scorer, some)
                yield ScoredRows(first, rows, best.scores, best.labels)
                continue
            values: np.ndarray = np.empty((some.size, self.model.n_labels), dtype=np.bool_ if flags else np.float64)
            for block, scores in self._weights.scores(scorer, some):
                values[:, block] = scores > thresholds[block] if flags else scores
            if flags:
                self.n_given += int(np.count_nonzero(values))
            yield ScoredRows(first, rows, values)


class DatasetPrediction(Prediction):
    """This rank's share of the prediction of a split."""

    def __init__(
        self, comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, what: What, log: Log, top: int | None = None
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
        done = 0
        with closing(Progress(self.log, "scoring rows (rank 0)", self.shard.n_local)) as progress:
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

    With `top`, only the scores of so many labels of each row, the best ones (of equal scores those
    with the lower numbers). Raises ConfigError for an ending of `output` that is not known, for an
    existing output without `force` and for an unknown split; DataError if model and data do not fit
    or a file cannot be read or written.
    """
    output = Path(output)
    ending = output.suffix.lower()
    known = (*FORMATS, texts.BIOASQ)
    if ending not in known:
        raise ConfigError(f"{output}: unknown kind of file {ending!r}; the name must end in one of {', '.join(known)}")
    texts.check_what(what, top)
    if ending == texts.BIOASQ:
        texts.check_bioasq(what, top)
    if what == "probabilities":
        model.check_probabilities()
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
    opened: Any = new_file if ending == ".h5" else temporary_path
    with opened(comm, output, force, [model.path, dataset.path]) as out:
        prediction = DatasetPrediction(comm, model, dataset, split, what, log, top)
        if ending != ".h5":
            _write_text(prediction, ending, out, output)
        elif what == "labels":
            _fill_labels(prediction, out, output)
        else:
            _fill_scores(prediction, out, output)
    rows, labels = plural(dataset.split(split).size, "row"), plural(model.n_labels, "label")
    log(f"{output}: {texts.what_is_written(what, top, model)} of {rows} for {labels}")
    prediction.hint(log, dataset.split(split).size, dataset)


def _describe(prediction: DatasetPrediction, file: h5py.File) -> None:
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


def _fill_scores(prediction: DatasetPrediction, out: SlabFile, output: Path) -> None:
    """Collective. `scores` or `probabilities` (n × L), or `top/` these and `labels`; `rows` (n)."""
    n_rows, what, k = prediction.shard.n_global, prediction.what, prediction.n_best
    slabs: dict[str, Slab] = {what: Slab((n_rows, prediction.model.n_labels), "<f8")}
    if k is not None:
        slabs = {"top/labels": Slab((n_rows, k), "<i4"), f"top/{what}": Slab((n_rows, k), "<f8")}
    slabs["rows"] = Slab((n_rows,), "<i8")
    out.layout(slabs, lambda file: _describe(prediction, file))
    with mpi.agreed(prediction.comm, f"writing {output}"):
        for chunk in prediction.chunks():
            arrays = [prediction.shown(chunk.values, chunk.best), chunk.rows]
            for name, values in zip(slabs, arrays if chunk.best is None else [chunk.best, *arrays], strict=True):
                out.write(name, chunk.first, values)


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


def _write_text(prediction: DatasetPrediction, ending: str, temporary: Path, output: Path) -> None:
    """Collective. Each rank formats its rows; all but rank 0 into parts that are copied behind."""
    comm, lines = prediction.comm, texts.TEXT_FORMATS.get(ending, texts.bioasq_lines)
    part = temporary if comm.rank == 0 else temporary.with_name(f"{temporary.name}-{comm.rank}")
    try:
        with mpi.agreed(comm, f"writing {output}"), part.open("wb") as file:
            if comm.rank == 0:
                append(file, lines(prediction, None).encode(), output)
            for chunk in prediction.chunks():
                for piece in chunk.pieces():
                    append(file, lines(prediction, piece).encode(), output)
            if comm.rank == comm.size - 1 and ending == texts.BIOASQ:
                append(file, texts.BIOASQ_END.encode(), output)
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
