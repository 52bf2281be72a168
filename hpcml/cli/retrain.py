"""The command `hpcml retrain`."""

from __future__ import annotations

from pathlib import Path

from hpcml.cli.session import Here, Output
from hpcml.options import Flag


def retrain(run: Path, data: Path, *, output: Output, force: Flag = False, resume: Flag = False, session: Here) -> None:
    """Train the labels of new data with the options of a finished run of `train dual`; labels that
    have not changed keep models.

    If the documents are the same, labels with the same positive rows keep their models, and only
    the others are trained. If documents came or went, all are trained. Either way the model is the
    file that training anew gives.

    Parameters
    ----------
    run:
        The run folder of a finished `hpcml train dual`.
    data:
        A dataset with the features of the run's, made with `hpcml convert --like` (and
        --new-labels).
    output:
        The new run folder; must not exist without --resume or --force.
    force:
        Start anew in an existing run folder.
    resume:
        Continue an interrupted run, on any number of ranks.
    """
    from hpcml.methods.retrain import retrain as work
    from hpcml.run.session import Target

    session.log.report(str(work(session, run, data, Target(output, force, resume))))


retrain.resumable = True  # type: ignore[attr-defined]
