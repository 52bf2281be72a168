"""`hpcml retrain`: train a finished run again on changed data, and keep the models of unchanged labels."""

from __future__ import annotations

from contextlib import suppress
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
    """Train the labels of `data` with a finished run's options. Collective over the session.

    If the documents are the same, labels with the same positive rows keep their models bit for bit. All other labels are trained.
    """
    comm = session.comm
    if run.resolve() == target.output.resolve():
        raise OptionError("output", target.output, "is the run to retrain; choose another folder")
    with mpi.agreed(comm, f"reading {run}"):
        folder = RunFolder(comm, run, session.log)
        config, able = read_config(run / CONFIG) if (run / CONFIG).is_file() else {}, registry.methods_supporting("retrain")
        if "folds" in config:
            raise ConfigError(f"{run} is a run of hpcml tune, whose settings depend on its data; run hpcml tune on {data}")
        method = registry.method_named(config["method"] if config.get("method") in able else able[0])
        hint = f"only runs of {', '.join(able)} by hpcml train can be retrained; use hpcml train"
        options, before = folder.read_finished(method.name, hint, partial(from_dict, method.options))
        earlier = PreviousRun(Model(folder.model), run, before)
    options = replace(options, time_limit=time_limit)
    report: TrainReport = registry.train(method.name, session, data, target, options, earlier=earlier)
    return report


class PreviousRun:
    """A finished run. After `match_labels`, `unchanged` maps label indices to rows of the model."""

    def __init__(self, model: Model, run: Path, data: Path) -> None:
        self.model, self.run, self.data = model, run, data  # the dataset may no longer exist
        self.unchanged: dict[int, int] = {}
        self.has_scores = True  # all unchanged labels have counts of leave-one-out scores

    def match_labels(self, comm: mpi.Comm, problem: LabelProblem, log: Log) -> None:
        """Set `unchanged`. Collective over `comm`; raises DataError if the features differ."""
        with mpi.agreed(comm, f"comparing with {self.run}"):
            self.model.check_vocabulary(problem.dataset)
            has_scores = self.model.scores is not None
        same, why = self._match_labels(comm, problem)
        trainable = np.flatnonzero(problem.trainable).tolist()
        if same is not None:
            self.unchanged = {k: same[k] for k in trainable if k in same}
            self.has_scores = has_scores or not self.unchanged
            n_dropped = self.model.n_labels - len(set(self.unchanged.values()))
            n_renamed = sum(self.model.label_names[row] != problem.names[k] for k, row in self.unchanged.items())
            log(
                f"the documents are those of {self.run}: {plural(len(self.unchanged), 'label')} unchanged, keeping their models"
                f"{f' ({n_renamed:,} renamed)' if n_renamed else ''}; {len(trainable) - len(self.unchanged):,} to train; "
                f"{plural(n_dropped, 'earlier model')} dropped"
            )
        else:
            log(f"{why}: training all {len(trainable)} labels")
        decisions = {"threshold": ("thresholds", "hpcml threshold"), "sigmoid_slope": ("sigmoids", "hpcml calibrate")}
        if self.model.has_own_thresholds and self.has_scores:  # the new model has its own, too
            del decisions["threshold"]
        if decided := [names for column, names in decisions.items() if column in self.model.labels]:
            what, how = map(" and ".join, zip(*decided, strict=True))
            log(f"note: the new model does not inherit the {what} of {self.run}; choose new ones with {how}")

    def _match_labels(self, comm: mpi.Comm, problem: LabelProblem) -> tuple[dict[int, int] | None, str]:
        """Map labels to earlier labels with the same positive rows, or return None and the reason. Collective."""
        split, exists = str(self.model.attrs["split"]), False
        if comm.rank == 0:
            with suppress(HpcmlError, OSError), DataFile(self.data) as dataset:
                exists = split == "all" or split in dataset.split_names()
        lost = f"{self.data}, the training data of {self.run}, no longer exists, so no label can be recognised as unchanged"
        if not comm.bcast(exists):
            return None, lost
        if problem.rows.n_global != int(self.model.attrs["n_rows"]):
            return None, "documents were added or removed"
        new = digests(comm, load_shard(comm, problem.dataset, problem.split))
        with mpi.agreed(comm, f"opening {self.data}"):
            dataset = DataFile(self.data)
        with dataset:
            shard = load_shard(comm, dataset, split)
            old = digests(comm, shard)
            old_fingerprint = fingerprint(comm, shard, f"{dataset.fingerprint} {problem.rows.scale!r} {problem.objective.lam!r}")
            names = dataset.label_names()
        if old[0] != new[0]:
            return None, "documents were added or removed"
        if old_fingerprint != self.model.attrs["fingerprint"]:
            return None, lost
        numbers = {name: number for number, name in enumerate(names)}
        old_digests = {name: old[1][numbers[name]] for name in self.model.label_names}
        by_digest = {digest: row for row, digest in enumerate(old_digests.values())}
        by_name = {name: row for row, name in enumerate(old_digests)}
        same = {}
        for k, (label, name) in enumerate(zip(problem.labels.tolist(), problem.names, strict=True)):
            digest = new[1][label]
            if digest in by_digest:  # prefer the same name among several labels with these rows
                same[k] = by_name[name] if old_digests.get(name) == digest else by_digest[digest]
        return same, ""
