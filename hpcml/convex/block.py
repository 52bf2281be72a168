"""The loop of PROBE over a block of labels: shared passes, scattered progress, labels that leave and enter, checkpoints.

All ranks hold the block's weights W (d × B) and, after the reduction, its subgradient; so all take the same steps. What a label's
next step is, only the owner of its slot decides: it alone keeps the label's state and best weights, and tells the others
three numbers.
"""

from __future__ import annotations

import csv
import io
import time

import h5py
import numpy as np

from hpcml import mpi
from hpcml.checkpoint import Checkpoints, CheckpointWriter
from hpcml.config import TrainOptions
from hpcml.convex.objective import BlockObjective
from hpcml.convex.probe import CYCLES, ProbeState
from hpcml.data.slabs import SlabFile
from hpcml.errors import DataError
from hpcml.kernels import blocks
from hpcml.log import Progress
from hpcml.model import STATUS
from hpcml.partition import owner
from hpcml.runfolder import RunFolder
from hpcml.signals import StopSignals

HISTORY = ("label", "step", "f", "phi", "cycle", "eta", "grad_norm", "active_rows", "violators", "seconds")
CONVERGED, DEGENERATE, STEP_LIMIT = range(len(STATUS))
SIGNAL, DUE, TIME_UP = range(3)
# What an owner tells of each of its slots after an evaluation.
ETA, IMPROVED, DONE, PHI, CYCLE, STEP, F_MIN = range(7)
DECISIONS = 7
STATE = ProbeState().pack().size


class ProbeBlock:
    """B slots of labels in training. `label_in[slot]` is an index into `labels`, or −1. Making one is collective."""

    def __init__(
        self,
        comm: mpi.Comm,
        objective: BlockObjective,
        options: TrainOptions,
        labels: np.ndarray,
        names: list[str],
        n_positive: np.ndarray,
        model: SlabFile,
        folder: RunFolder,
    ) -> None:
        self.comm, self.objective, self.options = comm, objective, options
        self.labels, self.names, self.n_positive = labels, names, n_positive
        self.model, self.folder = model, folder
        self.checkpoints = Checkpoints(comm, folder.checkpoints, folder.log)
        n_slots = objective.slots.size
        self.own = [slot for slot in range(n_slots) if owner(slot, comm.size) == comm.rank]
        self.column = {slot: column for column, slot in enumerate(self.own)}
        with mpi.agreed(comm, "making room for the weights"):
            self.W = np.zeros((objective.n_weights, n_slots))
            self.W_min = np.zeros((objective.n_weights, len(self.own)))
        self.w_sq = np.zeros(n_slots)
        self.states = {slot: ProbeState() for slot in self.own}
        self.label_in = np.full(n_slots, -1, dtype=np.int64)
        self.next_label = 0
        self.n_done = 0
        self.n_passes = 0  # in this process, for the progress line
        self.elapsed = 0.0
        self.history = io.StringIO()
        self.history_rows = csv.writer(self.history, lineterminator="\n")
        self.history_bytes = 0

    def warm_up(self) -> None:
        """Compile the kernels for these types. Local."""
        self.objective.run_kernel(self.W, self.w_sq, self.objective.shard.rows[:0])
        none = np.zeros(0, dtype=np.int64)
        empty, out = self.W[:0], np.zeros(self.w_sq.size)
        blocks.gradient_squares(empty, self.objective.grad[:0], 0.0, 0.0, out)
        blocks.step(empty, self.objective.grad[:0], out, 0.0, 0.0, out.copy())
        blocks.copy_lanes(empty, none, none, self.W_min[:0])

    @mpi.collective
    def run(self, signals: StopSignals, progress: Progress) -> str:
        """Collective. Train until all labels are done: ""; or until a signal or the time limit, after a checkpoint: why."""
        started, before = time.monotonic(), self.elapsed
        saved = started
        if before == 0.0:
            self._write_history(header=True)
        self._fill_slots()
        flags = self.objective.flags
        while (self.label_in >= 0).any():
            self.elapsed = before + time.monotonic() - started
            flags[SIGNAL] = signals.seen
            if self.comm.rank == 0:  # one clock decides for all
                flags[DUE] = time.monotonic() - saved >= self.options.checkpoint_every
                flags[TIME_UP] = self.options.time_limit is not None and time.monotonic() - started >= self.options.time_limit
            else:
                flags[DUE:] = 0.0
            stop, due = self._turn()
            progress.update(self.n_done, f"pass {self.n_passes}")
            if stop or due:
                self.save()
                saved = time.monotonic()
            if stop:
                return stop
        self.elapsed = before + time.monotonic() - started
        with mpi.agreed(self.comm, f"writing {self.model.target}"):
            self.model.flush()
        self._write_history()
        return ""

    def _turn(self) -> tuple[str, bool]:
        """Collective. One pass over the rows and one step of every label in the block; (why to stop, checkpoint due)."""
        objective = self.objective
        f, violators = objective.evaluate(self.W, self.w_sq)
        flags = objective.flags.copy()
        grad_sq = objective.gradient_squares(self.W)
        decisions = self._decide(f, grad_sq)
        self._record(f, grad_sq, violators, decisions)
        self._keep_improved(decisions)
        self.w_sq = objective.step(self.W, np.ascontiguousarray(decisions[:, ETA]))
        done = np.flatnonzero(decisions[:, DONE])
        if done.size:
            self._finish(done, decisions)
            self._fill_slots()
        self.n_passes += 1
        stop = "a signal arrived" if flags[SIGNAL] else "the time limit is reached" if flags[TIME_UP] else ""
        return stop, bool(flags[DUE])

    def _decide(self, f: np.ndarray, grad_sq: np.ndarray) -> np.ndarray:
        """Collective. Every owner advances its labels' states; all ranks learn the decisions (B × 7)."""
        decisions = np.zeros((self.label_in.size, DECISIONS))
        for slot in self.own:
            if self.label_in[slot] < 0:
                continue
            state = self.states[slot]
            step = state.advance(float(f[slot]), float(grad_sq[slot]), self.options.epsilon)
            done = CONVERGED + 1 if step.done else STEP_LIMIT + 1 if state.step >= self.options.max_steps else 0
            decisions[slot] = (step.eta, step.improved, done, state.phi, state.cycle, state.step, state.f_min)
        return mpi.allreduce_sum(self.comm, decisions)

    def _record(self, f: np.ndarray, grad_sq: np.ndarray, violators: np.ndarray, decisions: np.ndarray) -> None:
        """Add this step's lines to the history (rank 0)."""
        if self.comm.rank != 0:
            return
        for slot in np.flatnonzero(self.label_in >= 0):
            eta, _, _, phi, cycle, step, _ = decisions[slot].tolist()
            numbers = (f"{f[slot]:.17g}", f"{phi:.6g}", CYCLES[int(cycle)], f"{eta:.9g}", f"{np.sqrt(grad_sq[slot]):.9g}")
            counts = (self.objective.n_rows, int(violators[slot]), f"{self.elapsed:.3f}")
            self.history_rows.writerow((self.names[self.label_in[slot]], int(step), *numbers, *counts))

    def _keep_improved(self, decisions: np.ndarray) -> None:
        """Copy the weights of own labels that reached a new minimum. Local."""
        lanes = np.array([slot for slot in self.own if decisions[slot, IMPROVED]], dtype=np.int64)
        if lanes.size:
            blocks.copy_lanes(self.W, lanes, np.array([self.column[slot] for slot in lanes], dtype=np.int64), self.W_min)

    def _finish(self, done: np.ndarray, decisions: np.ndarray) -> None:
        """Collective. Owners write their finished labels to the model; the slots become free."""
        with mpi.agreed(self.comm, f"writing {self.model.target}"):
            for slot in done:
                if slot in self.column:
                    weights = np.ascontiguousarray(self.W_min[:, self.column[slot]])
                    *_, steps, f_min = decisions[slot].tolist()
                    self._write_label(self.label_in[slot], weights, f_min, int(steps), int(decisions[slot, DONE]) - 1)
        self.label_in[done] = -1
        self.n_done += done.size
        self._write_history()

    def _write_label(
        self, label: int, weights: np.ndarray | None, f_min: float, steps: int, status: int, bias: float = 0.0
    ) -> None:
        """Write one label's row of the model. Local; raises OSError."""
        d = self.objective.shard.n_features
        if weights is not None:
            self.model.write("W", label, weights[:d].reshape(1, d))
            bias = weights[d] if self.objective.bias else 0.0
        numbers = {"bias": bias, "labels/f_min": f_min, "labels/steps": steps, "labels/status": status}
        for name, value in {**numbers, "labels/n_positive": self.n_positive[label]}.items():
            self.model.write(name, label, np.array([value]))

    def _fill_slots(self) -> None:
        """Collective. Let waiting labels enter free slots, at w = 0; degenerate ones get the constant model at once."""
        for slot in np.flatnonzero(self.label_in < 0):
            label = self._next_trainable()
            self.label_in[slot] = label
            self.objective.slots[slot] = self.labels[label] if label >= 0 else -1
            self.W[:, slot] = 0.0
            self.w_sq[slot] = 0.0
            if slot in self.column:
                self.W_min[:, self.column[slot]] = 0.0
                self.states[slot] = ProbeState()

    def _next_trainable(self) -> int:
        """Collective. The next label with positives and negatives, or −1; writes the degenerate ones before it."""
        while self.next_label < self.labels.size:
            label = self.next_label
            self.next_label += 1
            n_positive = int(self.n_positive[label])
            if 0 < n_positive < self.objective.n_rows:
                return label
            with mpi.agreed(self.comm, f"writing {self.model.target}"):
                if self.comm.rank == 0:
                    self._write_label(label, None, 0.0, 0, DEGENERATE, bias=1.0 if n_positive else -1.0)
            self.n_done += 1
        return -1

    @mpi.collective
    def _write_history(self, header: bool = False) -> None:
        """Collective. Append the waiting lines to history.csv."""
        with mpi.agreed(self.comm, f"writing {self.folder.history}"):
            if self.comm.rank == 0:
                if header:
                    self.history_rows.writerow(HISTORY)
                text = self.history.getvalue().encode()
                with self.folder.history.open("wb" if header else "ab") as out:
                    out.write(text)
                self.history_bytes += len(text)
                self.history.seek(0)
                self.history.truncate()

    @mpi.collective
    def save(self) -> None:
        """Collective. Write a checkpoint of everything that the model file does not hold yet."""
        self._write_history()
        with mpi.agreed(self.comm, f"writing {self.model.target}"):
            self.model.flush()
        n_slots, d = self.label_in.size, self.objective.n_weights
        shapes = {"W": (n_slots, d), "W_min": (n_slots, d), "slots": (n_slots, 1 + STATE), "progress": (1, 4)}

        def fill(out: CheckpointWriter) -> None:
            for slot in self.own:
                out.write_row("W", slot, self.W[:, slot])
                out.write_row("W_min", slot, self.W_min[:, self.column[slot]])
                out.write_row("slots", slot, np.concatenate([[self.label_in[slot]], self.states[slot].pack()]))
            if self.comm.rank == 0:
                out.write_row("progress", 0, np.array([self.next_label, self.n_done, self.elapsed, self.history_bytes]))

        self.checkpoints.save(shapes, fill)

    @mpi.collective
    def restore(self) -> None:
        """Collective. Continue from the newest sound checkpoint; with none, from the beginning.

        Raises DataError if the block was another.
        """
        path = self.checkpoints.newest()
        if path is None:
            self.folder.log("no checkpoint was written yet; starting from the beginning")
            return
        with mpi.agreed(self.comm, f"reading {path}"), h5py.File(path, "r", locking=False) as file:
            if file["W"].shape != (self.label_in.size, self.objective.n_weights):
                raise DataError(f"{path}: the block has another shape; resume with the same --block")
            table = file["slots"][:]
            self.label_in[:] = table[:, 0].astype(np.int64)
            for slot in range(self.label_in.size):
                self.W[:, slot] = file["W"][slot]
            for slot in self.own:
                self.W_min[:, self.column[slot]] = file["W_min"][slot]
                self.states[slot] = ProbeState.unpack(table[slot, 1:])
            next_label, n_done, self.elapsed, history_bytes = file["progress"][0].tolist()
            self.next_label, self.n_done, self.history_bytes = int(next_label), int(n_done), int(history_bytes)
            if self.comm.rank == 0:
                with self.folder.history.open("r+b") as out:
                    out.truncate(self.history_bytes)
        self.objective.slots[:] = np.where(self.label_in >= 0, self.labels[self.label_in], -1)
        blocks.gradient_squares(self.W, self.W, 1.0, 0.0, self.w_sq)
        self.folder.log(f"resuming from {path.name}: {self.n_done} of {self.labels.size} labels done")
