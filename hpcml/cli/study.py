"""The commands about runs and methods: `hpcml compare`, `merge`, `cv`, `check`, `bench`."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from hpcml.bench.shared_options import shared_options
from hpcml.cli.plan import bench_machine
from hpcml.cli.session import AnewAll, Data, Here, JudgedSplit, Output, Replace, ReplaceJson, check_files, say_once, write_files
from hpcml.errors import ConfigError
from hpcml.options import Flag, Several

WITH_OPTIONS_OF_METHODS = ("compare", "bench")


@Parameter(name="*")
@dataclass(frozen=True)
class NoOptions:
    """In place of those of the methods, which take long to gather, where they are not asked for."""


def compare_command(shared: type[Any]) -> Callable[..., None]:
    """`compare`, with the options that the methods share."""

    def compare(
        data: Data,
        /,
        *,
        output: Output,
        method: Annotated[tuple[str, ...], Several] = (),
        options: shared = shared(),  # type: ignore[valid-type]  # noqa: B008 - frozen
        test_split: JudgedSplit = None,
        force: AnewAll = False,
        resume: Flag = False,
        session: Here,
    ) -> None:
        """Train several methods with the same options, and judge them.

        Each has its own run folder. All are judged on the same rows, which a table shows.
        --loss is for the methods with a penalty that goes with it; others (elastic-net) keep their
        own, and the table names both.

        Parameters
        ----------
        output:
            The folder for the run folders, one for each method, and compare.csv.
        method:
            A method to train. Default: every one that minimises the loss.
        resume:
            Continue an interrupted comparison; what is trained already is only judged again.
            --time-limit holds for each method.
        """
        from hpcml.bench.compare import compare as work
        from hpcml.run.session import Target

        say_once(session, str(work(session, data, Target(output, force, resume), method, options, test_split)))

    function: Any = compare
    function.resumable = True
    return compare


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


def bench_pass(
    file: Data, /, *, labels_per_pass: Annotated[tuple[int, ...], Several] = (1, 4, 8, 16, 32, 64), repeats: int = 7, session: Here
) -> None:
    """One pass over the rows for so many labels against scipy's X @ W and X.T @ R together; prints
    a JSON line for each.

    Parameters
    ----------
    labels_per_pass:
        Labels that share the pass.
    repeats:
        Timed repetitions; the shortest counts.
    """
    import json

    from hpcml.bench.one_pass import bench_pass as work

    if session.comm.size > 1:
        raise ConfigError("bench pass compares one core with one core: run it without mpirun")
    for line in work(file, labels_per_pass, repeats):
        say_once(session, json.dumps(line))


@Parameter(name="*")
@dataclass(frozen=True)
class OvrFlags:
    """The flags of `hpcml bench ovr`, in the order of `bench.ovr.OvrOptions`."""

    method: Annotated[tuple[str, ...], Several] = ()
    """A method of `hpcml train`. Default: dual and liblinear."""
    peer: Annotated[tuple[str, ...], Several] = ()
    """Another trainer: napkinxc, pecos, vowpalwabbit; with --loss logistic liblinear-logistic;
    beside elastic-net liblinear-l1; or none. Default: all of that loss that are installed.
    """
    tol: Annotated[tuple[float, ...], Several] = (0.1, 0.01)
    """Tolerances of the methods that have one, instead of --liblinear-tol and --dual-tol; a table
    for each.
    """
    repeat: int = 1
    """Times to train everything, in turn; the least time is shown."""
    peer_python: Path | None = None
    """A Python that has the other trainers, where they cannot be installed beside hpcml."""
    peer_limit: float = 3600.0
    """Seconds after which another trainer is given up."""


def bench_ovr_command(shared: type[Any]) -> Callable[..., None]:
    """`bench ovr`, with the options that the methods share."""

    def bench_ovr(
        data: Data,
        /,
        *,
        output: Output,
        flags: OvrFlags = OvrFlags(),
        options: shared = shared(),  # type: ignore[valid-type]  # noqa: B008 - frozen
        test_split: JudgedSplit = None,
        force: AnewAll = False,
        session: Here,
    ) -> None:
        """One-versus-rest training of many labels with our methods and with other programs, on the
        same rows and cores; a table.

        Parameters
        ----------
        output:
            The folder for the run folders, one for each method and tolerance, and ovr.txt, ovr.csv
            and ovr.json.
        """
        from hpcml.bench.ovr import OvrOptions
        from hpcml.bench.ovr import bench_ovr as work
        from hpcml.run.session import Target

        plan = OvrOptions(*vars(flags).values())
        say_once(session, str(work(session, data, Target(output, force), plan, options, test_split)))

    function: Any = bench_ovr
    function.resumable = True
    return bench_ovr


@Parameter(name="*")
@dataclass(frozen=True)
class CvOptions:
    """Options of `hpcml cv`."""

    protocol: str = "folds"
    """folds: F1 in stratified folds. top: each split holds out rows of a label and the same share
    of the others, which a model of the rest ranks; precision in the first ranks, with a bootstrap
    shift test of each method against the one named before it.
    """
    folds: int | None = None
    """Of --protocol folds: into how many parts the rows are dealt; each is judged once by models of
    the others. Default: 5.
    """
    top: int | None = None
    """Of --protocol top: how many rows of the label are held out, and how many ranks are looked at.
    Default: 100.
    """
    splits: int | None = None
    """Of --protocol top: how many splits. Default: 100."""
    label: Annotated[tuple[str, ...], Several] = ()
    """Only this label of the files that are named without one."""
    split: str = "all"
    """Rows that take part: a split of the files, or all."""
    seed: int = 0
    """Another seed gives other folds or splits, and another order of the training rows."""
    baseline: str | None = None
    """Of --protocol folds: the method that the others are compared with. Default: the first."""
    in_order: Flag = False
    """Train on rows in the order of the file."""
    bias: Annotated[bool, Parameter(negative="--no-bias")] = True
    """With --no-bias probe, dual, perceptron, pa, romma, their voted forms and svm have no
    intercept.
    """


def cv(
    *names: str,
    options: CvOptions = CvOptions(),
    output: Output | None = None,
    picture: Path | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Cross-validate methods on data.

    F1 in folds with paired t-tests and ranks, or precision in the first ranks of random splits.

    Parameters
    ----------
    names:
        Methods and data, in any order. Methods: probe, dual, elastic-net, bernoulli-nb (with small
        weights, too: all-bernoulli-nb), boosted-bayes, staged-bayes, staged-svm, pw, bw, mbw,
        perceptron, pa, romma, their voted forms v-NAME, psbml, svm, multinomial-nb, a base learner
        of psbml, or the path of a scikit-learn classifier. Data: FILE, each of whose labels is told
        from all others, or FILE:LABEL.
    output:
        Write the table to this file as CSV, with what was measured in each fold or split.
    picture:
        Of --protocol top: draw the differences between each method and the one named before it
        (.png, .pdf or .svg), for at most 24 labels.
    force:
        Replace the output and the picture if they exist.
    """
    if picture is None:
        from hpcml.crossval.command import cv as work

        say_once(session, str(work(session.comm, names, output, force, session.log, **vars(options))))
    else:
        from hpcml.plots.differences import cv_with_picture

        say_once(session, cv_with_picture(session.comm, names, output, picture, force, session.log, **vars(options)))


def add_commands(app: App, tokens: Collection[str]) -> None:
    """Add the commands of this file, with the options of all methods if `tokens` ask for them."""
    shared = shared_options() if not set(WITH_OPTIONS_OF_METHODS).isdisjoint(tokens) else NoOptions
    bench = App(name="bench", help="Time our methods and kernels beside those of others.")
    bench.command(bench_pass, name="pass")
    bench.command(bench_ovr_command(shared), name="ovr")
    bench.command(bench_machine, name="machine")
    for command in (compare_command(shared), merge, cv, check, bench):
        app.command(command)
