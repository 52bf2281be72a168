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
from hpcml.methods.linear.train import train
from hpcml.model.linear import Model
from hpcml.run.environment import record_end
from hpcml.run.folder import CONFIG, ENVIRONMENT, RunFolder, from_dict, read_config
from hpcml.run.session import Session, Target

METHOD = "dual"  # whose model of a label depends on nothing but the rows and the label


@mpi.collective
def retrain(session: Session, run: Path, data: Path, target: Target) -> TrainReport:
    """Collective over the session. Train the labels of `data` with the options of a finished run, into the folder of the target.

    Where the documents are the same, labels with the positive rows that they had keep their models bit for bit, and the others are
    trained anew. Else every label begins with its solution in the run. Raises what training does.
    """
    comm = session.comm
    method = registry.method_named(METHOD)
    if run.resolve() == target.output.resolve():
        raise ConfigError(f"--output {target.output} is the run that is to be retrained; name another folder")

    with mpi.agreed(comm, f"reading {run}"):
        folder = RunFolder(comm, run, session.log)
        if (run / CONFIG).is_file() and "folds" in read_config(run / CONFIG):
            raise ConfigError(f"{run} is a run of hpcml tune, whose choice belongs to its data; tune again on {data}")
        options, before = folder.finished(
            METHOD, f"only runs of {METHOD} can be retrained; train it anew", partial(from_dict, method.options)
        )
        earlier = Earlier(Model(folder.model), run, before)
    registry.check_headings(session, data, method)
    options = replace(options, time_limit=None)
    report = train(method.load(method.tuned), session, data, target, options, earlier=earlier)
    record_end(comm, target.output / ENVIRONMENT)
    return report
