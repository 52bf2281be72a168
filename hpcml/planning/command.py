"""The command line of a planned training."""

from __future__ import annotations

import math
import shlex
from dataclasses import fields
from typing import Any

from hpcml.options import default_of, flag_of
from hpcml.planning.plan import Plan

SPARE = 1.5  # times the planned time that a job asks for, and of the planned memory
LEAST_MINUTES = 10


def flags(options: Any) -> list[str]:
    """The options that are not as by default, as words of a command line."""
    found: list[str] = []
    for option in fields(options):
        value = getattr(options, option.name)
        if value == default_of(option):
            continue
        name = flag_of(option.name)
        if isinstance(value, bool):
            found.append(f"--{name}" if value else f"--no-{name}")
        else:
            found += [f"--{name}", *map(str, value if isinstance(value, tuple) else (value,))]
    return found


def commands(plan: Plan, options: Any) -> list[str]:
    """The commands that start the training: with mpirun on one node, else Slurm, generously."""
    nodes, ranks, seconds = plan.cluster.nodes, plan.cluster.ranks_per_node, plan.seconds
    words = [plan.method, str(plan.data or "DATA.h5"), "-o", f"runs/{plan.method}", *flags(options)]
    if nodes == 1:
        start = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
        return [shlex.join([*start, "hpcml", "train", *words])]
    memory = math.ceil(1.2 * plan.node_bytes / 2**30)
    asked = [f"--nodes={nodes}", f"--ntasks-per-node={ranks}", f"--mem={memory}G"]
    if not math.isnan(seconds):
        minutes = max(LEAST_MINUTES, math.ceil(SPARE * seconds / 60))
        asked.append(f"--time={minutes // 60:02}:{minutes % 60:02}:00")
    return [shlex.join(["sbatch", *asked, "slurm/run.sbatch", "train", *words])]
