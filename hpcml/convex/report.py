"""What a finished training run did."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.convex.objective import Objective
from hpcml.data.compact import CompactRows
from hpcml.model import STATUS, Model
from hpcml.runfolder import RunFolder


@dataclass(frozen=True)
class TrainReport:
    """What a finished training run did."""

    model: Path
    n_rows: int
    n_features: int
    n_labels: int
    mean_steps: float  # over the labels that were trained
    visited: float  # mean share of the rows visited per step
    degenerate: list[str]
    step_limit: list[str]
    seconds: float
    lam: float
    profile: list[dict[str, float]] = field(default_factory=list)  # seconds per phase, rank by rank; empty if not asked for

    def __str__(self) -> str:
        lines = [
            f"trained {self.n_labels} labels in {self.seconds:.2f} s, {self.mean_steps:.1f} iterations a label, "
            f"{100 * self.visited:.0f} % of the rows visited; model: {self.model}"
        ]
        for what, names in (
            ("no positive or no negative row, got a constant model", self.degenerate),
            ("hit --max-steps", self.step_limit),
        ):
            if names:
                lines.append(f"{len(names)} labels {what}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}")
        for rank, seconds in enumerate(self.profile):
            lines.append(f"rank {rank}: " + ", ".join(f"{phase} {value:.2f} s" for phase, value in seconds.items()))
        return "\n".join(lines)


@mpi.collective
def read_report(
    comm: mpi.Comm, folder: RunFolder, rows: CompactRows, objective: Objective, seconds: float, profile: bool
) -> TrainReport:
    """Collective over `comm`. What the finished model says of its labels; one rank reads it."""
    report, profiles = None, comm.allgather(objective.profile.seconds) if profile else []
    with mpi.agreed(comm, f"reading {folder.model}"):
        if comm.rank == 0:
            report = _report(Model(folder.model), rows, objective, seconds, profiles)
    return comm.bcast(report)


def _report(model: Model, rows: CompactRows, objective: Objective, seconds: float, profiles: list[dict[str, float]]) -> TrainReport:
    """See `read_report`. Local."""
    status, steps = model.labels["status"], model.labels["steps"]
    named = {text: [model.label_names[k] for k in np.flatnonzero(status == code)] for code, text in enumerate(STATUS)}
    trained = status != STATUS.index("degenerate")
    return TrainReport(
        model=model.path,
        n_rows=rows.n_global,
        n_features=rows.n_features,
        n_labels=model.n_labels,
        mean_steps=float(steps[trained].mean()) if trained.any() else 0.0,
        visited=float(model.labels["visited"][trained].mean()) if trained.any() else 0.0,
        degenerate=named["degenerate"],
        step_limit=named["step limit"],
        seconds=seconds,
        lam=objective.lam,
        profile=profiles,
    )
