"""scikit-learn's AdaBoostM1 (Freund & Schapire 1996), for comparison with PSBML: `hpcml train adaboost`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml import mpi, rng
from hpcml.data.dataset import split_or_all
from hpcml.data.labels import read_classes, warn_about_unused_rows
from hpcml.data.leaks import warn_about_class_leaks
from hpcml.data.shard import read_rows
from hpcml.log import plural, visible
from hpcml.methods.method import Method
from hpcml.methods.psbml.options import AdaboostOptions
from hpcml.model import learner as learners
from hpcml.model.classifier import ClassifierModel, MarginData, Origin, check_savable, write_classifier
from hpcml.model.raw_input import RawInput
from hpcml.model.training_keys import training_keys
from hpcml.mpi.memory import check_room
from hpcml.run.folder import FINISHED, RunConfig, RunFolder
from hpcml.run.session import Session, Target

ADABOOST = "sklearn.ensemble.AdaBoostClassifier"


@dataclass(frozen=True)
class AdaboostReport:
    model: Path
    n_rounds: int
    learner: str
    seconds: float

    def __str__(self) -> str:
        return visible(f"trained {self.n_rounds} rounds of {self.learner} in {self.seconds:.2f} s; model: {self.model}")


def boosted(learner: learners.Learner, n_rounds: int) -> learners.Learner:
    boosting = (("estimator", learner.make(0)), ("n_estimators", n_rounds))
    return learners.Learner(learner.name, ADABOOST, boosting, learner.prefers_dense)


def train(method: Method, session: Session, data: Path, target: Target, options: AdaboostOptions) -> AdaboostReport:
    """Train one classifier of all classes on rank 0, without checkpoints. Raises ConfigError, DataError. Collective."""
    options.validate()
    learner = learners.parse_learner(options.base)
    comm, log = session.comm, session.log
    dataset = method.open_data(comm, data)
    with dataset, RunFolder(comm, target.output, log) as folder:
        split, booster = options.split or split_or_all(dataset, "train"), boosted(learner, options.rounds)
        warn_about_unused_rows(comm, dataset, split, log)
        classes = read_classes(comm, dataset, split, options.label)
        warn_about_class_leaks(comm, dataset, split, classes.names, log)
        dense = booster.wants_dense(dataset.n_rows, dataset.n_features, dataset.nnz)
        if dense:
            check_room(comm, booster.name, classes.rows.size, dataset.n_features, copies=4)
        doing = f"preparing the base learner {booster.name}"
        mpi.run_on_root(comm, doing, lambda: check_savable(booster, classes.n_classes, dense))
        if folder.prepare(RunConfig(method.name, dataset.path.resolve(), options), target) == FINISHED:
            n_rounds = mpi.run_on_root(comm, f"reading {folder.model}", lambda: int(ClassifierModel(folder.model).attrs["rounds"]))
            return AdaboostReport(folder.model, n_rounds, learner.name, 0.0)
        size = f"{plural(classes.rows.size, 'row')} × {plural(dataset.n_features, 'feature')}"
        log(f"training {plural(options.rounds, 'round')} of {learner} on {size}")
        begin = time.monotonic()
        with folder.discard_on_error(), mpi.agreed(comm, "training"):
            if comm.rank == 0:
                seed = int(rng.bits(options.seed, "adaboost", np.array(0))) >> 32
                classifier = learners.fit(booster, read_rows(dataset, classes.rows, dense), classes.of, seed)
        n_rounds = comm.bcast(len(classifier.estimators_) if comm.rank == 0 else 0)
        seconds = time.monotonic() - begin
        with mpi.agreed(comm, f"writing {folder.model}"):
            if comm.rank == 0:
                facts = (classes.names, dataset.n_features, dataset.vocabulary, dense)
                keys = None if options.no_id_hashes else training_keys(dataset, split)
                about = {"rounds": n_rounds}
                origin = Origin("adaboost", learner, split, *facts, about, keys, RawInput.of_dataset(dataset))
                write_classifier(folder.model, classifier, origin, MarginData())
                folder.remove_checkpoints()
    return AdaboostReport(folder.model, n_rounds, learner.name, seconds)
