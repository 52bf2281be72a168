"""AdaBoostM1 (Freund & Schapire 1996), scikit-learn's, as a method to compare PSBML with: `hpcml train adaboost`."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from hpcml import mpi, rng
from hpcml.data.classes import read_classes
from hpcml.data.dataset import Dataset, default_split
from hpcml.data.labels import tell_unused
from hpcml.data.shard import read_rows
from hpcml.log import Log
from hpcml.methods.psbml.options import AdaboostOptions
from hpcml.model import learner as learners
from hpcml.model.classifier import check_savable, write_classifier
from hpcml.mpi.memory import check_room
from hpcml.run.folder import FINISHED, RunFolder, as_dict

ADABOOST = "sklearn.ensemble.AdaBoostClassifier"


def train_adaboost(
    comm: mpi.Comm | None,
    data: Path,
    output: Path,
    options: AdaboostOptions,
    force: bool = False,
    resume: bool = False,
    log: Log | None = None,
) -> str:
    """Collective over `comm`. Train one classifier of the classes of `data` into the run folder `output`; a sentence about it.

    Rank 0 trains on all rows, the others wait: it cannot be divided. There are no checkpoints: an interrupted run begins again.
    Raises ConfigError or DataError for what the user can mend.
    """
    options.validate()
    learner = learners.parse_learner(options.base)
    with mpi.duplicated(comm) as comm:
        log = log or Log(comm.rank)
        with mpi.agreed(comm, f"opening {data}"):
            dataset = Dataset(data)
        with dataset, RunFolder(comm, Path(output), log) as folder:
            boosting = (("estimator", learner.make(0)), ("n_estimators", options.rounds))
            boosted = learners.Learner(learner.name, ADABOOST, boosting, learner.prefers_dense)
            split = options.split or default_split(dataset, "train")
            tell_unused(comm, dataset, split, log)
            classes = read_classes(comm, dataset, split, options.label)
            dense = boosted.wants_dense(dataset.n_rows, dataset.n_features, dataset.nnz)
            if dense:
                check_room(comm, learner.name, classes.rows.size, dataset.n_features, copies=4)
            with mpi.agreed(comm, f"preparing the base learner {learner.name}"):
                if comm.rank == 0:
                    check_savable(boosted, classes.n_classes, dense)
            config = {"method": "adaboost", "data": str(dataset.path.resolve()), **as_dict(options)}
            if folder.prepare(config, force, resume) == FINISHED:
                return f"{folder.path} is finished already; nothing to resume"
            log(f"training {options.rounds} rounds of {learner} on {classes.rows.size:,} rows × {dataset.n_features:,} features")
            begin = time.monotonic()
            with folder.discarded_on_error(), mpi.agreed(comm, "training"):
                if comm.rank == 0:
                    seed = int(rng.bits(options.seed, "adaboost", np.array(0))) >> 32
                    classifier = learners.fit(boosted, read_rows(dataset, classes.rows, dense), classes.of, seed)
            n_rounds = comm.bcast(len(classifier.estimators_) if comm.rank == 0 else 0)
            seconds = time.monotonic() - begin
            with mpi.agreed(comm, f"writing {folder.model}"):
                if comm.rank == 0:
                    write_classifier(
                        folder.model,
                        classifier,
                        method="adaboost",
                        learner=learner,
                        label_names=classes.names,
                        n_features=dataset.n_features,
                        vocabulary=dataset.vocabulary,
                        split=split,
                        dense=dense,
                        margin_rows=np.empty(0, dtype=np.int64),
                        margin_weights=np.empty(0, dtype=np.float32),
                        cycle=0,
                        about={"rounds": n_rounds},
                    )
                    folder.drop_checkpoints()
    return f"trained {n_rounds} rounds of {learner.name} in {seconds:.2f} s; model: {folder.model}"
