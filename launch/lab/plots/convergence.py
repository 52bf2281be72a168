"""How PROBE converged on a label of a finished run (PROBE 2012, figures 1 to 3), from its own data.

The run is walked again with all rows at every step in double precision: Algorithm 1 itself. w* is a
point that it passes through, which the run's weights (single precision, dormant rows) are not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.labels import fingerprint
from hpcml.data.shard import Shard, load_shard
from hpcml.errors import ConfigError, DataError, nearest
from hpcml.evaluation.counts import Counts, positive_pairs
from hpcml.evaluation.ranking import MEASURES
from hpcml.evaluation.report import cell
from hpcml.kernels import scores as kernels
from hpcml.log import Log, joined, named
from hpcml.methods.linear.objective import Objective
from hpcml.methods.linear.panel import Panel
from hpcml.methods.probe.convergence import Trace, probe_limit, trace_all
from hpcml.methods.probe.options import ProbeOptions
from hpcml.model.linear import STATUS, Model
from hpcml.plots.figure import check_outputs, plot_convergence, write_traces_csv
from hpcml.run.folder import FILES, RunFolder, from_dict
from hpcml.run.profile import Profile

SAFE_BYTES = 100  # of a label in a file's name


class LabelObjective:
    """f and a subgradient g of one label over `objective`'s columns (float64, no dormant rows)."""

    def __init__(self, objective: Objective, label: int) -> None:
        """`label` is the label's number in the data. Local; raises MemoryError."""
        self.objective, self.label, self.panel = objective, label, Panel(objective, 1)
        self.panel.enter(0, label)

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Collective. f(w) and g(w) = λ w + Σ ∂ℓ / m on all ranks. Raises NonFiniteError."""
        panel, rows = self.panel, self.objective.rows
        panel.w[:] = w
        panel.measure()
        self.objective.evaluate([panel])
        f, _ = panel.gather()
        return float(f[0]), self.objective.lam * w + panel.whole(0, panel.slopes(0)) / rows.n_global


class SplitBreakEven:
    """The break-even of weights on a split's rows, averaged over ties, as of `hpcml evaluate`."""

    def __init__(self, comm: mpi.Comm, shard: Shard, label: int, tables: tuple[np.ndarray, np.ndarray], bias: bool) -> None:
        """`tables` say which column each feature has, and its factor. Local."""
        self.comm, self.shard, self.tables, self.bias = comm, shard, tables, bias
        place = np.full(shard.n_labels, -1, dtype=np.int64)
        place[label] = 0
        self.positive = np.isin(shard.rows, positive_pairs(shard, place)[0])

    def scores(self, w: np.ndarray) -> np.ndarray:
        """The scores (n_local) of this rank's rows. Local."""
        shard, out = self.shard, np.empty(self.shard.n_local)
        weights, bias = (w[:-1], w[-1:]) if self.bias else (w, np.zeros(1))
        csr = (shard.indptr, shard.indices, shard.data, shard.rows, np.zeros(shard.n_local, dtype=np.int64))
        kernels.score_pairs(*csr, weights.reshape(1, -1), self.tables, bias, out)
        return out

    def __call__(self, w: np.ndarray) -> float:
        """Collective. NaN if no row of the split has the label."""
        scores = self.scores(w)
        counts = Counts(np.concatenate(mpi.allgather_arrays(self.comm, scores[self.positive])))
        counts.add(np.sort(scores))
        mpi.allreduce_sum(self.comm, counts.tally)
        return MEASURES["break_even"](counts.ranking(self.shard.n_global))


@dataclass(frozen=True)
class Convergence:
    """The traces of one label of a run, and where they were written."""

    label: str
    n_positive: int
    n_rows: int
    traces: list[Trace]
    f_star: float
    f_model: float
    picture: Path
    table: Path

    def __str__(self) -> str:
        lines = [
            f"{named(self.label)}: {self.n_positive:,} of {self.n_rows:,} training rows have it",
            f"f(w*) = {self.f_star:.6f}; of the run's model: {self.f_model:.6f}",
        ]
        for trace in self.traces:
            last = cell(trace.break_even[-1][1])
            lines.append(f"{trace.name}: {len(trace.f)} steps, least f {min(trace.f):.6f}, break-even of the last step {last}")
        return joined([*lines, f"picture: {self.picture}", f"numbers: {self.table}"])


def plot_run(
    comm: mpi.Comm | None,
    run: Path,
    label: str | None = None,
    output: Path | None = None,
    data: Path | None = None,
    test_split: str | None = None,
    force: bool = False,
    log: Log | None = None,
) -> Convergence:
    """Collective over `comm`. Walk a label of a finished PROBE run again; draw how it converges.

    Raises ConfigError, DataError or NonFiniteError for what the user can mend.
    """
    with mpi.duplicated(comm) as comm:
        log = log or Log(comm.rank)
        with mpi.agreed(comm, f"reading {run}"):
            options, model, path = open_run(RunFolder(comm, Path(run), log))
            name = choose_label(model, label)
            picture = output or Path(run) / f"convergence-{safe(name)}.png"
            if comm.rank == 0:
                check_outputs(picture, force, [data or path, *(Path(run) / file for file in FILES)])
            dataset = DataFile(data or path)
        with dataset:
            with mpi.agreed(comm, f"reading {dataset.path}"):
                model.check_vocabulary(dataset)
            evaluate, break_even = _prepare(comm, dataset, model, options, name, test_split)
            rows, limits = evaluate.objective.rows, (options.epsilon, options.step_limit)
            sizes = f"rows: {rows.n_global:,}, columns: {rows.n_columns:,}"
            log(f"{named(name)}: looking for w*, then walking the three ways to it; {sizes}")
            w_star, f_star = probe_limit(evaluate, rows.n_columns, *limits)
            traces = trace_all(evaluate, w_star, break_even, *limits)
        table = picture.with_suffix(".csv")
        with mpi.agreed(comm, f"writing {picture}"):
            if comm.rank == 0:
                plot_convergence(name, traces, picture)
                write_traces_csv(traces, table)
        f_model = float(model.labels["f_min"][model.label_names.index(name)])
        return Convergence(name, int(rows.n_positive[evaluate.label]), rows.n_global, traces, f_star, f_model, picture, table)


def open_run(folder: RunFolder) -> tuple[ProbeOptions, Model, Path]:
    """A finished run's options, model, and dataset. Local; raises ConfigError or DataError."""
    options, data = folder.finished("probe", "the figures are about probe", partial(from_dict, ProbeOptions))
    return options, Model(folder.model), data


def choose_label(model: Model, wanted: str | None) -> str:
    """The label to walk; by default that of most positive rows. Raises ConfigError: not trained."""
    trained = model.labels["status"] != STATUS.index("degenerate")
    if wanted is None:
        if not trained.any():
            raise ConfigError(f"{model.path}: every label has no positive or no negative row; there is nothing to walk")
        return model.label_names[int(np.where(trained, model.labels["n_positive"], -1).argmax())]
    if wanted not in model.label_names:
        hint = nearest(wanted, model.label_names, "hpcml evaluate --csv")
        raise ConfigError(f"--label {wanted}: {model.path} has no such label; {hint}")
    if not trained[model.label_names.index(wanted)]:
        raise ConfigError(f"--label {wanted}: it has no positive or no negative training row; choose another label")
    return wanted


def safe(label: str) -> str:
    """A label as a part of a file's name: letters, digits, `_`, `.`, `-`; not too long."""
    return re.sub(r"[^\w.-]+", "_", label).encode(errors="replace")[:SAFE_BYTES].decode(errors="ignore")


def _prepare(
    comm: mpi.Comm, dataset: DataFile, model: Model, options: ProbeOptions, name: str, test_split: str | None
) -> tuple[LabelObjective, SplitBreakEven]:
    """Collective over `comm`. What the walks ask for, compiled and with room. Raises DataError."""
    shard = load_shard(comm, dataset, options.split or default_split(dataset, "train"))
    test = load_shard(comm, dataset, test_split or default_split(dataset, "test"))
    rows, columns = compact_rows(comm, shard, options.bias)
    objective = Objective(rows, replace(options, dormant=False, precision="double"), Profile())
    found = fingerprint(comm, shard, f"{rows.scale!r} {objective.lam!r}")
    if model.attrs.get("n_rows") != rows.n_global or model.attrs.get("fingerprint") != found:  # the same on all ranks
        raise DataError(f"{dataset.path}: {model.path} was trained on other data; name that file with --data, or train again")
    label, tables = dataset.label_names().index(name), columns.tables(comm)
    with mpi.agreed(comm, "making room for the weights"):
        evaluate = LabelObjective(objective, label)
        break_even = SplitBreakEven(comm, test, label, tables, rows.bias)
    with mpi.node_first(comm):
        objective.warm_up()
        break_even.scores(np.zeros(rows.n_columns))
        counts = Counts(np.zeros(1))
        kernels.count_sorted(counts.values, counts.values, counts.tally[:2], counts.tally[2:3])
    return evaluate, break_even
