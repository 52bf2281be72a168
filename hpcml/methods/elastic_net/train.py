"""`hpcml train elastic-net`: registration of the method, and training for a path of λ₁."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.files.table import write_table
from hpcml.kernels import elementwise
from hpcml.methods.elastic_net.certifier import HISTORY, ElasticRisk
from hpcml.methods.elastic_net.delayed import DelayedSolver
from hpcml.methods.elastic_net.newton import NewtonSolver
from hpcml.methods.elastic_net.options import ElasticNetOptions, parse_l1
from hpcml.methods.linear import train as linear
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.report import TrainReport
from hpcml.methods.linear.settings import TENFOLD, TENFOLD_STEP, Axis
from hpcml.methods.linear.solver import History
from hpcml.methods.method import Method
from hpcml.model.linear import Model
from hpcml.run.folder import CONFIG
from hpcml.run.session import Session, Target

# Cost of a label: (positive rows + FEW)^GROWTH. Seconds of labels with 1, 3, 8, 19, 76, 290, 2,819 and 10,297 positive rows of
# 34,914 (convert synthetic text): 0.037, 0.039, 0.085, 0.11, 0.15, 0.17, 0.26, 0.46 with λ₁ = 0.01N/m (default); 0.002, 0.005,
# 0.020, 0.029, 0.12, 0.22, 0.47, 0.72 with 0.1N/m.
GROWTH, FEW = 0.4, 1
PATH = ("run", "l1", "features", "share", "f", "gap", "seconds")  # features: mean non-zero weights per label; f: mean objective


def bytes_per_rank_elastic(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Return bytes: rows twice; per row slots, duals and losses; per column sums, weights and the lanes' squares."""
    return 16 * n_values + 128 * n_rows + (56 + 2 * n_lanes * weight_bytes) * n_columns


def solver(risk: ElasticRisk, labels: np.ndarray, n_lanes: int, options: ElasticNetOptions) -> NewtonSolver | DelayedSolver:
    return (NewtonSolver if options.solver == "newton" else DelayedSolver)(risk, labels, n_lanes, options)


def costs(n_positive: np.ndarray, options: ElasticNetOptions) -> np.ndarray:
    if options.solver != "newton":
        return np.ones(n_positive.size)
    return elementwise.power(n_positive + FEW, GROWTH)


L1 = Axis("l1", TENFOLD, TENFOLD_STEP, lambda rows, options: parse_l1(options.l1, math.sqrt(rows.scale), rows.n_global))
METHOD = LinearMethod(
    solver=solver,
    sharding=Sharding.NONE,
    memory=bytes_per_rank_elastic,
    risk=ElasticRisk,
    certified=True,
    history=History(HISTORY, lambda step: "{:.0f},{:.17g},{:.17g},{:.0f},{:.0f},{:.0f},{:.3f}".format(*step)),
    axes=(L1,),
    costs=costs,
)


def train(method: Method, session: Session, data: Path, target: Target, options: ElasticNetOptions, **more: Any) -> TrainReport:
    """Train one run, or one per λ₁ of `--path`; return the last report. Collective over the session; raises as `linear.train`."""
    if not options.path:
        return linear.train(method, session, data, target, options, **more)
    options.validate()
    initial, lines = options.initial_model, list[tuple[str, ...]]([PATH])
    for number, l1 in enumerate(options.path, 1):
        folder = target.output / f"path-{number}"
        resume = mpi.agreed_any(session.comm, target.resume and (folder / CONFIG).exists())
        run_options = replace(options, path=(), l1=l1, initial_model=initial)
        report = linear.train(method, session, data, Target(folder, target.force, resume), run_options)
        initial = report.model.resolve()
        model = Model(report.model)
        features, f = f"{report.kept * model.n_columns:.4g}", f"{float(np.mean(model.labels['f_min'])):.9g}"
        seconds = f"{report.seconds:.2f}"
        lines.append((folder.name, l1, features, f"{report.kept:.3g}", f, f"{report.max_gap:.3g}", seconds))
        session.log(f"λ₁ = {l1}: {features} features a label, mean f {f}, {seconds} s; {report.model}")
    mpi.run_on_root(session.comm, f"writing {target.output}", lambda: write_table(target.output / "path.csv", lines))
    return report
