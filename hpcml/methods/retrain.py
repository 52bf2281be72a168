"""`hpcml retrain`: the models of a finished run, for data that have changed since."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.methods import registry
from hpcml.methods.linear.earlier import Earlier
from hpcml.methods.linear.report import TrainReport
from hpcml.model.linear import Model
from hpcml.run.folder import CONFIG, RunFolder, from_dict, read_config
from hpcml.run.session import Session, Target


def retrain(session: Session, run: Path, data: Path, target: Target) -> TrainReport:
    """Collective over the session. Train the labels of `data` with a finished run's options.

    Where the documents are the same, labels with the positive rows that they had keep their models
    bit for bit, and the others are trained anew. Else every label begins with its solution in the
    run. Raises what training does.
    """
    comm = session.comm
    if run.resolve() == target.output.resolve():
        raise ConfigError(f"--output {target.output} is the run that is to be retrained; name another folder")

    with mpi.agreed(comm, f"reading {run}"):
        folder = RunFolder(comm, run, session.log)
        config, able = read_config(run / CONFIG) if (run / CONFIG).is_file() else {}, registry.supporting("retrain")
        if "folds" in config:
            raise ConfigError(f"{run} is a run of hpcml tune, whose choice belongs to its data; tune again on {data}")
        method = registry.method_named(config["method"] if config.get("method") in able else able[0])
        hint = f"only runs of {', '.join(able)} can be retrained; train it anew"
        options, before = folder.finished(method.name, hint, partial(from_dict, method.options))
        earlier = Earlier(Model(folder.model), run, before)
    report: TrainReport = registry.train(method.name, session, data, target, replace(options, time_limit=None), earlier=earlier)
    return report
