"""`hpcml retrain`: the models of a finished run, for data that have changed since."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import digests, fingerprint
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, HpcmlError, OptionError
from hpcml.log import Log, plural
from hpcml.methods import registry
from hpcml.model.linear import Model
from hpcml.run.folder import CONFIG, RunFolder, from_dict, read_config
from hpcml.run.session import Session, Target

if TYPE_CHECKING:
    from hpcml.methods.linear.load import LabelProblem
    from hpcml.methods.linear.report import TrainReport


def retrain(session: Session, run: Path, data: Path, target: Target, time_limit: float | None = None) -> TrainReport:
    """Collective over the session. Train the labels of `data` with a finished run's options.

    Where the documents are the same, labels with the positive rows that they had keep their models bit for bit, and the others are
    trained anew. Else every label begins with its solution in the run. Raises what training does.
    """
    comm = session.comm
    if run.resolve() == target.output.resolve():
        raise OptionError("output", target.output, "it is the run that is to be retrained; name another folder")
    with mpi.agreed(comm, f"reading {run}"):
        folder = RunFolder(comm, run, session.log)
        config, able = read_config(run / CONFIG) if (run / CONFIG).is_file() else {}, registry.supporting("retrain")
        if "folds" in config:
            raise ConfigError(f"{run} is a run of hpcml tune, whose choice belongs to its data; tune again on {data}")
        method = registry.method_named(config["method"] if config.get("method") in able else able[0])
        hint = f"only runs of {', '.join(able)} by hpcml train can be retrained; train it anew"
        options, before = folder.read_finished(method.name, hint, partial(from_dict, method.options))
        earlier = Earlier(Model(folder.model), run, before)
    options = replace(options, time_limit=time_limit)
    report: TrainReport = registry.train(method.name, session, data, target, options, earlier=earlier)
    return report


class Earlier:
    """A finished run. After `compare`, `kept` maps labels (places) to the models that they keep."""

    def __init__(self, model: Model, run: Path, data: Path) -> None:
        """`data` is the path of the run's dataset, which may be gone."""
        self.model, self.run, self.data = model, run, data
        self.kept: dict[int, int] = {}

    def compare(self, comm: mpi.Comm, problem: LabelProblem, log: Log) -> None:
        """Collective over `comm`. Find out what holds. DataError if the features are others."""
        with mpi.agreed(comm, f"comparing with {self.run}"):
            self.model.check_vocabulary(problem.dataset)
        same, why = self._unchanged(comm, problem)
        here = np.flatnonzero(problem.trainable).tolist()
        if same is not None:
            self.kept = {k: same[k] for k in here if k in same}
            gone = self.model.n_labels - len(set(self.kept.values()))
            named = sum(self.model.label_names[number] != problem.names[k] for k, number in self.kept.items())
            log(
                f"the documents are those of {self.run}: {plural(len(self.kept), 'label')} with the rows of before keep models"
                f"{f' ({named:,} under another name)' if named else ''}, {len(here) - len(self.kept):,} are trained anew, "
                f"{plural(gone, 'model')} of before left out"
            )
        else:
            log(f"{why}: all {len(here)} labels are trained anew")
        decided = [name for name in ("threshold", "sigmoid_slope") if name in self.model.labels]
        if decided:
            what = " and ".join({"threshold": "thresholds", "sigmoid_slope": "sigmoids"}[name] for name in decided)
            how = " and ".join({"threshold": "hpcml threshold", "sigmoid_slope": "hpcml calibrate"}[name] for name in decided)
            log(f"note: the new model does not take over the {what} of {self.run}; find new ones with {how}")

    def _unchanged(self, comm: mpi.Comm, problem: LabelProblem) -> tuple[dict[int, int] | None, str]:
        """Collective. By label, an earlier one with its rows; None, and why, if rows differ."""
        split, there = str(self.model.attrs["split"]), False
        if comm.rank == 0:
            try:
                with DataFile(self.data) as dataset:
                    there = split == "all" or split in dataset.split_names()
            except (HpcmlError, OSError):
                there = False
        lost = f"{self.data}, on which {self.run} was trained, is not there any more, so no label is known to be unchanged"
        if not comm.bcast(there):
            return None, lost
        if problem.rows.n_global != int(self.model.attrs["n_rows"]):
            return None, "documents came or went"
        new = digests(comm, load_shard(comm, problem.dataset, problem.split))
        with mpi.agreed(comm, f"opening {self.data}"):
            dataset = DataFile(self.data)
        with dataset:
            shard = load_shard(comm, dataset, split)
            old = digests(comm, shard)
            found = fingerprint(comm, shard, f"{dataset.fingerprint} {problem.rows.scale!r} {problem.objective.lam!r}")
            names = dataset.label_names()
        if old[0] != new[0]:
            return None, "documents came or went"
        if found != self.model.attrs["fingerprint"]:
            return None, lost
        numbers = {name: number for number, name in enumerate(names)}
        before = {name: old[1][numbers[name]] for name in self.model.label_names}
        place = {digest: k for k, digest in enumerate(before.values())}
        by_name = {name: k for k, name in enumerate(before)}
        kept = {}
        for k, (label, name) in enumerate(zip(problem.labels.tolist(), problem.names, strict=True)):
            digest = new[1][label]
            if digest in place:  # of several labels with these rows, the one of the same name
                kept[k] = by_name[name] if before.get(name) == digest else place[digest]
        return kept, ""
