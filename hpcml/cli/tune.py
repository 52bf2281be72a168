"""The command `hpcml tune`."""

from __future__ import annotations

from pathlib import Path

from hpcml.cli.session import Here, Output
from hpcml.options import Flag
from hpcml.tuning.options import TuneOptions


def tune(
    data: Path,
    *,
    output: Output,
    options: TuneOptions = TuneOptions(),  # noqa: B008 - frozen
    force: Flag = False,
    resume: Flag = False,
    session: Here,
) -> None:
    """Choose λ and the weight of positive rows for each label by cross-validation on the training
    rows; train; decide.

    The model also gets a threshold and a sigmoid (for predict --probabilities) for each label, from
    the scores of held-out folds.

    Parameters
    ----------
    data:
        A dataset made with `hpcml convert`.
    output:
        The run folder; must not exist without --resume or --force. Besides what hpcml train writes
        it gets tuning.csv (the settings) and choice.csv (the labels).
    force:
        Start anew in an existing run folder.
    resume:
        Continue an interrupted run, on any number of ranks.
    """
    from hpcml.run.session import Target
    from hpcml.tuning.tune import tune as work

    report = work(session, data, Target(output, force, resume), options)
    session.log.report(str(report.trained))


tune.resumable = True  # type: ignore[attr-defined]
