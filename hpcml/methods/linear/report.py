"""The report of a finished training run."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.files.table import table
from hpcml.log import joined, named, plural
from hpcml.methods.linear.load import LabelProblem
from hpcml.methods.linear.options import LinearOptions
from hpcml.model.linear import STATUS, Model, empty_labels_warning
from hpcml.run.folder import RunFolder

GAP = 0.01  # default limit of certified gaps; larger gaps cause a warning


@dataclass(frozen=True)
class TrainReport:
    """The report of a finished training run."""

    model: Path
    n_rows: int
    n_features: int
    n_labels: int
    mean_steps: float  # over trained labels
    visited: float  # mean share of the rows visited per step
    degenerate: list[str]
    step_limit: list[str]
    seconds: float  # without loading, until the model is written
    lam: float
    max_gap: float | None = None  # largest certified gap
    gap_limit: float = GAP
    n_above: int = 0  # labels with a gap above the limit
    gaps: list[tuple[str, float, float]] = field(default_factory=list)  # label, objective, certified gap (--show-gaps)
    advice: str = ""
    kept: float | None = None  # share of the weights that are not 0; None if most are not
    dropped: bool = False  # --drop
    n_emptied: int = 0  # labels without a weight after --drop
    profile: list[dict[str, float]] = field(default_factory=list)  # seconds per phase, by rank (--profile)
    n_kept: int = 0  # labels with models of an earlier run
    cpu_seconds: float = 0.0  # of all ranks since training started or resumed
    has_own_thresholds: bool = False

    def __str__(self) -> str:
        n_new = self.n_labels - self.n_kept
        done = f"no labels trained, {plural(self.n_labels, 'label')} copied from the earlier run"
        if n_new:
            done = f"trained {plural(n_new, 'label')} in {self.seconds:.2f} s"
            done += f", {plural(self.n_kept, 'label')} copied from the earlier run" if self.n_kept else ""
        lines = [f"{done}; model: {self.model}"]
        if self.kept is not None:
            lines.append(f"{100 * self.kept:.3g} % of the weights are not 0, {self.model.stat().st_size / 1e6:.3g} MB")
        if self.n_emptied:
            lines.append(empty_labels_warning(self.n_emptied, self.n_labels, "--drop"))
        for what, names in (
            ("without positive or without negative rows (constant model)", self.degenerate),
            ("stopped at --max-steps or at the limit of the weight precision", self.step_limit),
        ):
            if names:
                examples = ", ".join(map(named, names[:5]))
                lines.append(f"{plural(len(names), 'label')} {what}: {examples}{' …' if len(names) > 5 else ''}")
        if self.gaps:
            lines += table([["label", "f", "gap"], *([name, f"{f:.8g}", f"{gap:.3g}"] for name, f, gap in self.gaps)])
        if self.max_gap is not None:
            statement = "at least one label has no certificate: its lower bound is not positive (see --show-gaps)"
            if self.max_gap < 1:  # f (1 − gap) ≤ min f
                excess, before = 100 * self.max_gap / (1 - self.max_gap), ", before weights were discarded" if self.dropped else ""
                statement = f"no objective is more than {excess:.3g} % above its minimum{before}"
            if self.n_above:
                share = f"{self.n_above:,} of {plural(self.n_labels, 'label')}"
                lines.append(f"warning: {statement}; the gap of {share} is above {100 * self.gap_limit:.3g} % ({self.advice})")
            else:
                lines.append(f"certified: {statement}")
        if self.has_own_thresholds:
            lines.append("the thresholds of the labels are from leave-one-out scores of the training rows")
        for rank, seconds in enumerate(self.profile):
            lines.append(f"rank {rank}: " + ", ".join(f"{phase} {value:.2f} s" for phase, value in seconds.items() if value))
        return joined(lines)


def read_report(
    folder: RunFolder,
    problem: LabelProblem,
    options: LinearOptions,
    kept: Collection[int],
    seconds: float = 0.0,
    cpu_seconds: float = 0.0,
) -> TrainReport:
    """Return the report of a finished model; `kept` are labels of an earlier run. Collective over the folder's ranks."""
    profiles = folder.comm.allgather(problem.objective.profile.read()) if options.profile else []
    report = None
    with mpi.agreed(folder.comm, f"reading {folder.model}"):
        if folder.comm.rank == 0:
            model = Model(folder.model)
            status, steps, gaps = model.labels["status"], model.labels["steps"], model.labels.get("gap")
            of_status = {text: [model.label_names[k] for k in np.flatnonzero(status == code)] for code, text in enumerate(STATUS)}
            learnt = status != STATUS.index("degenerate")
            trained = learnt & ~np.isin(np.arange(model.n_labels), list(kept))
            limit = GAP if options.max_gap is None else options.max_gap
            share, n_emptied = None, 0  # n_emptied: labels with neither a constant model nor a weight
            if model.combination is None and (model.sparse or options.drop is not None):
                n_weights = np.array([model.row(label)[1].size for label in range(model.n_labels)])
                share = float(n_weights.sum() / max(1, model.n_labels * model.n_columns))
                n_emptied = int(np.count_nonzero(learnt & (n_weights == 0))) if options.drop else 0
            report = TrainReport(
                model=model.path,
                n_rows=problem.rows.n_global,
                n_features=problem.rows.n_features,
                n_labels=model.n_labels,
                mean_steps=float(steps[trained].mean()) if trained.any() else 0.0,
                visited=float(model.labels["visited"][trained].mean()) if trained.any() else 0.0,
                degenerate=of_status["degenerate"],
                step_limit=of_status["step limit"],
                seconds=seconds,
                lam=problem.objective.lam,
                max_gap=float(gaps.max()) if gaps is not None else None,
                gap_limit=limit,
                n_above=int(np.count_nonzero(~(gaps <= limit))) if gaps is not None else 0,
                advice=options.advice,
                gaps=list(zip(model.label_names, model.labels["f_min"].tolist(), gaps.tolist(), strict=True))
                if options.show_gaps
                else [],
                kept=share,
                dropped=bool(options.drop),
                n_emptied=n_emptied,
                profile=profiles,
                n_kept=len(kept),
                cpu_seconds=cpu_seconds,
                has_own_thresholds=model.has_own_thresholds,
            )
    return folder.comm.bcast(report)
