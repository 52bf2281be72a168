"""The commands about runs and methods: `hpcml merge`, `cv`, `check`."""

from pathlib import Path
from typing import Annotated

from cyclopts import App

from hpcml.cli.session import Here, Output, Replace, ReplaceJson, check_files, say_once, write_files
from hpcml.crossval.options import CvOptions
from hpcml.errors import ConfigError
from hpcml.options import Flag, Several


def merge(*runs: Path, output: Output, force: Replace = False, session: Here) -> None:
    """Join models of parts of the labels, or results of runs.

    The parts are those of --label-part. The results of any runs become a table, a .csv.

    Parameters
    ----------
    runs:
        Run folders. To join models: those of all parts of one training. To a table: any; those that
        are judged already (`hpcml evaluate --json RUN/measures.json`) with their measures.
    output:
        The run folder to make, or a table NAME.csv: one line a run, with the options in which the
        runs differ, best first.
    """
    if not runs:
        raise ConfigError("merge what? name the run folders")
    from hpcml.methods.registry import method_named

    def free(method: str) -> set[str]:
        return method_named(method).free_keys

    if output.suffix == ".csv":
        from hpcml.run.sweep import merge_sweep

        say_once(session, str(merge_sweep(session.comm, list(runs), output, force, free)))
    else:
        from hpcml.run.merge import merge_models
        from hpcml.run.session import Target

        say_once(session, str(merge_models(session, list(runs), Target(output, force), free)))


def check(
    folder: Path = Path("hpcml-check"),
    /,
    *,
    bits: Flag = False,
    methods: Annotated[tuple[str, ...], Several] = (),
    json: Path | None = None,
    force: ReplaceJson = False,
    session: Here,
) -> None:
    """Try here what training needs: launcher, files, a tiny run.

    On the ranks that are there: launcher, cores, messages, files, locks, a tiny run; or whether
    bits are those of other processors.

    Parameters
    ----------
    folder:
        A new folder on the file system where runs will lie; it is removed again.
    bits:
        Train all methods on tiny data instead, score, judge, calibrate, and compare with what came
        out elsewhere.
    methods:
        With --bits: only these methods.
    json:
        With --bits: write the digests, and by what they were computed, to this file.
    """
    from hpcml.check.bits import write
    from hpcml.check.check import check as work
    from hpcml.check.check import check_bits

    if not bits:
        if methods or json is not None or force:
            raise ConfigError("--methods, --json and --force have no effect without --bits; leave them out")
        found = work(session.comm, folder)
    else:
        check_files(session, folder, force, [], json)
        found, digests = check_bits(session.comm, folder, methods)
        write_files(session, "the digests", digests, (json, write))
    say_once(session, str(found))
    if session.comm.bcast(found.n_bad):
        mend = "what is marked BAD has other bits here than elsewhere" if bits else "mend what is marked BAD first"
        raise ConfigError(f"this would not train well here: {mend}")


def cv(
    *names: str,
    options: CvOptions = CvOptions(),  # noqa: B008 - frozen
    output: Output | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Cross-validate methods on data.

    F1 in stratified folds, with corrected t-tests and ranks.

    Parameters
    ----------
    names:
        Methods and data, in any order. Methods: probe, dual, elastic-net, bernoulli-nb (with small
        weights, too: all-bernoulli-nb), boosted-bayes, staged-bayes, staged-svm, pw, bw, mbw,
        perceptron, pa, romma, their voted forms v-NAME, psbml, svm, multinomial-nb, a base learner
        of psbml, or the path of a scikit-learn classifier. Data: FILE, each of whose labels is told
        from all others, or FILE:LABEL.
    output:
        Write the table to this file as CSV, with F1 in each fold.
    force:
        Replace the output if it exists.
    """
    from hpcml.crossval.validate import cv as work

    say_once(session, str(work(session.comm, names, output, force, session.log, **vars(options))))


def add_commands(app: App) -> None:
    """Add the commands of this file to `app`."""
    for command in (merge, cv, check):
        app.command(command)
