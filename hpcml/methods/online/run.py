"""A pass from its first row to its last: progressive error, checkpoints, signals, time limit; and its costs for `hpcml plan`."""

import time
import zlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard
from hpcml.errors import DataError
from hpcml.files.slabs import Slab
from hpcml.files.table import write_table
from hpcml.log import plural
from hpcml.methods.online.kernels import FALSE_NEGATIVES, FALSE_POSITIVES
from hpcml.methods.online.options import MbwOptions, OnlineOptions, with_bias
from hpcml.methods.online.order import N_NUMBERS, ORDER, RowOrder
from hpcml.methods.online.saved import state_slabs
from hpcml.methods.online.source import DatasetSource, RowStream, local_labels
from hpcml.methods.online.state import LearnerState
from hpcml.run.checkpoint import Checkpoints, CheckpointWriter, reading_checkpoint
from hpcml.run.driver import Driver, Job
from hpcml.run.folder import RunFolder
from hpcml.run.profile import Profile
from hpcml.run.session import Session, open_shared_dataset
from hpcml.signals import StopSignals

HISTORY_POINTS = 66  # after 1, 2, 4 … 2⁶³ rows, at the end, and at the end of an initial model
# Columns of history.csv, with a line per label after 1, 2, 4, 8 … rows and at the end. Errors are shares of rows. They are
# progressive: each row is predicted before it is learnt from. The recent error counts the rows since the line before.
HISTORY = ("label", "rows", "positives", "false_positives", "false_negatives", "updates", "error", "recent_error")
PILOT_SECONDS = 5.0  # of training, for `hpcml plan`
GATHERED = 8  # labels whose weights are gathered as for a model


class Pass(Job):
    doing, title, unit = "learning", "rows", "row"

    def __init__(self, source: RowStream, folder: RunFolder, state: LearnerState, local: np.ndarray) -> None:
        """`local` are the positions in `source.names` of the labels of `state`."""
        self.source, self.folder, self.state, self.local = source, folder, state, local
        self.comm, self.options = folder.comm, state.options
        self.start = state.n_rows  # rows of the initial model
        self.total = None if source.n_rows is None else source.n_rows + self.start
        self.order = RowOrder(state.lane_of, state.n_lanes)
        self.checkpoints = Checkpoints(folder.comm, folder.checkpoints, folder.log)
        names = "\n".join([source.fingerprint, source.vocabulary or "", *source.names])
        self.origin = np.array([zlib.crc32(names.encode("utf-8", "surrogatepass"))])
        self.history = np.full((state.n_lanes, HISTORY_POINTS, 5), -1, dtype=np.int64)  # number of rows, and the counters
        self.n_points = 0
        self.resumed = self.has_checkpoint = False
        self.profile = Profile()

    def learn(self, resume: bool, signals: StopSignals) -> None:
        """Learn from all rows. Raises DataError; Interrupted after a signal or the time limit. Collective."""
        self.driver = Driver(self.comm, self.comm, signals, self.options.time_limit, self.options.checkpoint_every)
        self.resumed = resume
        first = self._restore() if resume else 0
        rows = "a stream of rows" if self.source.n_rows is None else plural(self.source.n_rows, "row")
        live = f", at most {self.options.live_features:,} at a time" if self.options.live_features else ""
        width = f" × {plural(self.source.n_features, 'feature')}" if self.source.n_features else ""
        self.folder.log(f"training {plural(len(self.source.names), 'label')} on {rows}{width}{live}")
        if self.start and self.state.n_rows == self.start:
            self._add_point()  # recent errors then count the new rows only
        self.driver.run(self._turns(first), self, self.folder.log)

    def _turns(self, first: int) -> Generator[list[None], None, None]:
        pieces, compiled = self.source.pieces(first), False
        while True:
            with self.profile("read"):
                piece = next(pieces, None)
            if piece is None:
                break
            if not compiled:
                begin, compiled = time.monotonic(), True
                with mpi.node_first(self.comm):
                    self.state.learn(piece[0], piece[1][:0])
                    self.order.add(piece[0], piece[1][:0])
                mpi.agreed_any(self.comm, False)
                self.driver.began += time.monotonic() - begin
            with self.profile("learn"):
                self._learn_piece(*piece)
            yield []
        self._add_point()

    @property
    def n_done(self) -> float:
        return self.state.n_rows if self.comm.rank == 0 else 0

    def note(self, turns: int) -> str:
        wrong = self.state.counters[[FALSE_POSITIVES, FALSE_NEGATIVES]].sum()
        return f"progressive error {100 * wrong / max(1, self.state.n_rows * self.state.n_lanes):.3f} %" if self.local.size else ""

    def save(self) -> None:
        state, n_labels, order = self.state, len(self.source.names), self.order.pack()
        numbers, rows = state.model_features()
        whole = {"features": numbers, "origin": self.origin, "elapsed": np.array([self.driver.seconds])}
        whole["pass"] = np.array([state.n_rows, self.n_points, state.n_features, *self.source.digest], dtype=np.int64)
        slabs = {name: Slab((1, row.size), row.dtype.str) for name, row in whole.items()}
        slabs |= state_slabs(state, n_labels, numbers.size)
        slabs |= {"history": Slab((n_labels, HISTORY_POINTS * 5), "<i8"), ORDER: Slab((n_labels, N_NUMBERS), "<i8")}

        def fill(writer: CheckpointWriter) -> None:
            for name, row in whole.items() if self.comm.rank == 0 else ():
                writer.write_row(name, 0, row)
            for lane, label in enumerate(self.local.tolist()):
                writer.write_row("history", label, self.history[lane])
                writer.write_row(ORDER, label, order[lane])
                for name, values in state.state_arrays(lane, np.append(0, rows)).items():
                    writer.write_row(name, label, values)

        self.checkpoints.save(slabs, fill)
        self.has_checkpoint = True

    def _restore(self) -> int:
        """Restore the newest checkpoint; return the number of rows of the source that it contains. Raises DataError. Collective."""
        path, source = self.checkpoints.newest(), self.source
        if path is None:
            self.folder.log("no checkpoint was written yet; starting from the beginning")
            return 0
        with mpi.agreed(self.comm, f"reading {path}"), reading_checkpoint(path) as file:
            n_rows, self.n_points, n_features, *digest = file["pass"][0].tolist()
            if not np.array_equal(file["origin"][0], self.origin):
                raise DataError(f"{source.name}: this run was started on other data; resume with the same file")
            source.expected = tuple(digest)
            self.state.restore(self.local, n_rows, n_features, file["features"][0], lambda name, label: file[name][label])
            self.driver.before = float(file["elapsed"][0, 0])
            if self.local.size:
                labels = slice(self.local[0], self.local[-1] + 1)
                self.history = file["history"][labels].reshape(-1, HISTORY_POINTS, 5).astype(np.int64)
                self.order.restore(file[ORDER][labels])
        self.has_checkpoint = True
        self.folder.log(f"resuming from {path.name}: {plural(n_rows, 'row')} done")
        return n_rows - self.start

    def discard(self) -> None:
        if self.comm.rank == 0 and not self.resumed:
            self.folder.discard()

    def _learn_piece(self, shard: Shard, rows: np.ndarray) -> None:
        """Learn from a piece and record the counters after 1, 2, 4 … rows. Collective with live features."""
        done = 0
        while done < rows.size:
            point = 1 << int(self.state.n_rows).bit_length()  # the next power of two
            part = rows[done : done + point - self.state.n_rows]
            try:
                self.state.learn(shard, part, lambda importance: mpi.allreduce_maxima(self.comm, importance))
            except DataError as error:  # the same on all ranks
                raise DataError(f"{self.source.name}: {error}") from None
            self.order.add(shard, part)
            done += part.size
            if self.state.n_rows == point:
                self._add_point()

    def _add_point(self) -> None:
        if self.n_points and (self.history[:, self.n_points - 1, 0] == self.state.n_rows).all() and self.state.n_lanes:
            return
        self.history[:, self.n_points, 0] = self.state.n_rows
        self.history[:, self.n_points, 1:] = self.state.counters.T
        self.n_points += 1

    def write_history(self) -> None:
        points = np.concatenate(mpi.allgather_arrays(self.comm, self.history[:, : self.n_points].reshape(-1)))

        def lines(labels: list[list[list[int]]]) -> Iterator[Sequence[object]]:
            yield HISTORY
            for name, label_points in zip(self.source.names, labels, strict=True):
                rows_before, wrong_before = 0, 0
                for rows, positives, false_positives, false_negatives, updates in label_points:
                    wrong = false_positives + false_negatives
                    recent = (wrong - wrong_before) / max(1, rows - rows_before)
                    yield name, rows, positives, false_positives, false_negatives, updates, wrong / max(1, rows), recent
                    rows_before, wrong_before = rows, wrong

        table = lines(points.reshape(len(self.source.names), -1, 5).tolist())  # consumed while it is written
        mpi.run_on_root(self.comm, f"writing {self.folder.history}", lambda: write_table(self.folder.history, table))


def feature_importance(
    comm: mpi.Comm, dataset: DataFile, split: str, labels: np.ndarray, shuffle: bool, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return max |u − v| over `labels` of each feature after a pass of mbw, and which features occur. Collective over `comm`."""
    options = MbwOptions(split=split, shuffle=shuffle, seed=seed, min_positives=0)
    source = DatasetSource(comm, dataset, options)
    local = labels[local_labels(labels, comm.rank, comm.size)]
    with mpi.agreed(comm, "allocating the weights"):
        state = LearnerState(options, "mbw", source.n_labels, source.n_features, local)
    for number, (shard, rows) in enumerate(source.pieces(0)):
        if number == 0:
            with mpi.node_first(comm):
                state.learn(shard, rows[:0])
        state.learn(shard, rows)
    return mpi.allreduce_maxima(comm, state.importance()), state.seen


def bytes_needed(
    name: str, options: OnlineOptions, n_labels: int, n_features: int, n_used: int, n_ranks: int
) -> tuple[int, int, int]:
    """Return the bytes of the weights (on the rank with most labels), of the model and of a checkpoint."""
    n_local, n_live = local_labels(range(n_labels), 0, n_ranks).size, options.live_features
    state = LearnerState(options, name, max(1, n_local), 0)  # no features: gives the width of a row of weights
    n_vectors, n_saved = len(state.array_names), min(n_used, n_live or n_used)
    weights = state.weights.shape[1] * state.weights.itemsize * ((n_live or n_features) + 1)
    model = n_labels * (8 * (1 if options.final else 1 + n_vectors) * n_saved + 64) + 8 * n_features
    return weights, model, n_labels * 8 * n_vectors * n_saved


def time_first_rows(
    session: Session, name: str, data: Path, options: OnlineOptions, n_ranks: int
) -> tuple[float, float, float, int, int]:
    """Return CPU seconds (slowest rank) to load, to train on the first rows and to gather the weights, and both numbers of rows.

    Every rank trains as many labels as the first of `n_ranks` ranks. Collective over the session.
    """
    comm, began, n_done = session.comm, time.process_time(), 0
    options = with_bias(options, name)
    with open_shared_dataset(session, data) as dataset:
        source = DatasetSource(comm, dataset, options)
        local = local_labels(source.names, 0, n_ranks)
        with mpi.agreed(comm, "allocating the weights"):
            state = LearnerState(options, name, source.n_labels, source.n_features, source.labels[local])
        order, loaded = RowOrder(state.lane_of, state.n_lanes), began
        for shard, rows in source.pieces(0):
            if not n_done:  # compile the kernels
                state.learn(shard, rows[:0])
                order.add(shard, rows[:0])
                loaded = time.process_time()
            state.learn(shard, rows, lambda importance: mpi.allreduce_maxima(comm, importance))
            order.add(shard, rows)
            n_done += rows.size
            if mpi.agreed_any(comm, time.process_time() - loaded > PILOT_SECONDS):
                break
        trained, lanes, features = time.process_time(), range(min(GATHERED, local.size)), state.model_features()[1]
        for lane in lanes:
            state.final_weights(lane, features)
            if not options.final:
                state.state_arrays(lane, features)
        gathered = (time.process_time() - trained) * local.size / max(1, len(lanes))
        load, learn, gather = (mpi.allreduce_max(comm, each) for each in (loaded - began, trained - loaded, gathered))
        return load, learn, gather, n_done, source.rows.size
