"""The commands of `hpcml`: three lines each, around the functions that do the work. Heavy imports wait until they are needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import cyclopts
from cyclopts import App, Parameter

from hpcml import __version__
from hpcml.cli.config_files import check_numbers, config_files, shortened
from hpcml.cli.online import add_commands
from hpcml.cli.plot import plot_app
from hpcml.cli.score import evaluate, predict, prune
from hpcml.cli.session import Output, Session, say_once
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import ConfigError, nearest
from hpcml.log import Log
from hpcml.methods.linear.options import TrainOptions
from hpcml.methods.online.learners import METHODS as ONLINE
from hpcml.methods.online.options import OnlineOptions
from hpcml.methods.psbml.options import AdaboostOptions, PsbmlOptions
from hpcml.options import Flag
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from hpcml import mpi
    from hpcml.cli.guard import Guard


# Methods of `hpcml train` that have options of their own, and a command of that name.
OWN_OPTIONS = {"psbml": PsbmlOptions, "adaboost": AdaboostOptions, **dict.fromkeys(ONLINE, OnlineOptions)}

app = App(name="hpcml", version=__version__, help="Train very many linear and boosted classifiers, on large sparse data, with MPI.")


def run(tokens: list[str], connect: Callable[[], mpi.Comm], guard: Guard | None = None) -> None:
    """Parse the command line, then start MPI with `connect` and run the command; a `guard` learns what run can be resumed.

    Raises ConfigError for a command line that makes no sense; everything else comes from the command.
    """
    if tokens[:1] in (["train"], ["predict"]):  # standard input or output: as a Path it is "-" again
        pairs = zip(["", *tokens], tokens, strict=False)
        tokens = ["./-" if token == "-" and not before.startswith("--") else token for before, token in pairs]
    try:
        tokens, train_app.config = config_files(tokens, OWN_OPTIONS)
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    except cyclopts.CycloptsError as error:
        raise ConfigError(shortened(str(error))) from None
    except OverflowError:
        raise ConfigError("a number on the command line is too large; expected one below 2**63") from None
    check_numbers(bound.arguments)
    if getattr(command, "__module__", "").startswith("hpcml."):  # ours; help and version need no MPI
        Session.signals = StopSignals() if guard is None else guard.signals
        if guard is not None and command in (train, train_psbml, compare, bench_ovr, *_online_commands):  # they look at signals
            guard.run = bound.arguments["output"]
        Session.comm = connect()
        Session.log = Log(Session.comm.rank)
    command(*bound.args, **bound.kwargs)


@app.command
def convert(
    source: str,
    input: Path | None = None,
    /,
    *,
    output: Output,
    options: ConvertOptions = ConvertOptions(),  # noqa: B008 - frozen
    force: Flag = False,
) -> None:
    """Make a dataset from svmlight or JSON lines (plain, gz, bz2, xz), from the docstrings of installed packages, or by formula.

    Parameters
    ----------
    source:
        svmlight, jsonl, docstrings or synthetic.
    input:
        The file to read; none for docstrings; for synthetic what to make: checkerboard, circle, gaussians or sine.
    output:
        The HDF5 file to make.
    force:
        Replace the output if it exists.
    """
    from hpcml.conversion.convert import convert as work

    say_once(str(work(Session.comm, source, [input] if input else [], output, options, force, Session.log)))


@app.command
def info(file: Path, /, *, ranks: tuple[int, ...] = (1, 2, 4), check: bool = True) -> None:
    """Show what a dataset holds, what a shard weighs on so many ranks, and check every row.

    Parameters
    ----------
    file:
        A dataset made with `hpcml convert`.
    ranks:
        Numbers of ranks to weigh shards for.
    check:
        Read and check the whole file.
    """
    from hpcml.data.info import format_info
    from hpcml.data.info import info as work

    say_once(format_info(work(Session.comm, file, list(ranks), check)))


@app.command
def split(
    file: Path,
    /,
    *,
    output: Output | None = None,
    test_share: float = 0.3,
    stratified: Flag = False,
    seed: int = 0,
    force: Flag = False,
) -> None:
    """Divide the rows of a dataset into train and test.

    Parameters
    ----------
    file:
        A dataset made with `hpcml convert`.
    output:
        Where to write the dataset with the splits. Default: replace the file.
    test_share:
        The share of the rows that become test rows.
    stratified:
        Keep the share within every label (by each row's rarest label).
    seed:
        Another seed gives another division.
    force:
        Replace splits, or an output, that exist.
    """
    from hpcml.conversion.split import split as work

    work(Session.comm, file, output, test_share, stratified, seed, force, Session.log)


train_app = App(name="train", help="Train one linear model per label, or one boosted classifier, into a run folder.")
app.command(train_app)


@train_app.default
def train(
    method: str,
    data: Path,
    *,
    output: Output,
    options: TrainOptions = TrainOptions(),  # noqa: B008 - frozen
    config: Path | None = None,
    force: Flag = False,
    resume: Flag = False,
) -> None:
    """Train one model per label into a run folder: config.toml, history.csv, model.h5, log.txt.

    Parameters
    ----------
    method:
        probe; dual, for very many labels; or, to compare with them: pegasos, svmperf, liblinear. (Other methods have options of
        their own: see below.)
    data:
        A dataset made with `hpcml convert`.
    output:
        The run folder; must not exist without --resume or --force.
    config:
        A TOML file with any of these options; flags win over it.
    force:
        Start anew in an existing run folder.
    resume:
        Continue an interrupted run, on any number of ranks.
    """
    from hpcml.methods.linear.train import train as work
    from hpcml.methods.registry import METHODS

    if method not in METHODS:
        raise ConfigError(f"no method {method!r}; {nearest(method, [*METHODS, *OWN_OPTIONS])}")
    report = work(method, Session.comm, data, output, options, force, resume, Session.log, Session.signals)
    Session.log.report(str(report))


@train_app.command(name="psbml")
def train_psbml(
    data: Path,
    *,
    output: Output,
    options: PsbmlOptions = PsbmlOptions(),  # noqa: B008 - frozen
    config: Path | None = None,
    force: Flag = False,
    resume: Flag = False,
) -> None:
    """Train one classifier of all classes: boosting by selection of the hard rows on a torus of ranks (PSBML).

    Parameters
    ----------
    data:
        A dataset made with `hpcml convert`: one label, or exactly one of several in each row (see --label).
    output:
        The run folder; must not exist without --resume or --force.
    config:
        A TOML file with any of these options; flags win over it.
    force:
        Start anew in an existing run folder.
    resume:
        Continue an interrupted run, on any number of ranks.
    """
    from hpcml.methods.psbml.train import train_psbml as work

    Session.log.report(str(work(Session.comm, data, output, options, force, resume, Session.log, Session.signals)))


@train_app.command(name="adaboost")
def train_adaboost(
    data: Path,
    *,
    output: Output,
    options: AdaboostOptions = AdaboostOptions(),  # noqa: B008 - frozen
    config: Path | None = None,
    force: Flag = False,
    resume: Flag = False,
) -> None:
    """Train one classifier of all classes with AdaBoostM1 (scikit-learn's), on one rank: to compare psbml with.

    Parameters
    ----------
    data:
        A dataset made with `hpcml convert`: one label, or exactly one of several in each row (see --label).
    output:
        The run folder; must not exist without --resume or --force.
    config:
        A TOML file with any of these options; flags win over it.
    force:
        Start anew in an existing run folder.
    resume:
        Begin an interrupted run again.
    """
    from hpcml.methods.psbml.adaboost import train_adaboost as work

    Session.log(str(work(Session.comm, data, output, options, force, resume, Session.log)))


_online_commands = add_commands(app, train_app)


@app.command
def compare(
    data: Path,
    /,
    *,
    output: Output,
    method: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    options: TrainOptions = TrainOptions(),  # noqa: B008 - frozen
    test_split: str | None = None,
    force: Flag = False,
    resume: Flag = False,
) -> None:
    """Train several methods with the same options, each into its own run folder, judge them on the same rows, show a table.

    Parameters
    ----------
    data:
        A dataset made with `hpcml convert`.
    output:
        The folder for the run folders, one for each method, and compare.csv.
    method:
        A method to train (may be repeated). Default: every one that minimises the loss.
    test_split:
        Rows to judge on: a split of the file, or all. Default: test if the file has it.
    force:
        Start anew in existing run folders.
    resume:
        Continue an interrupted comparison; what is trained already is only judged again. --time-limit holds for each method.
    """
    from hpcml.bench.compare import compare as work

    say_once(str(work(Session.comm, data, output, method, options, test_split, force, resume, Session.log, Session.signals)))


@app.command
def merge(*runs: Path, output: Output, force: Flag = False) -> None:
    """Join the models of runs that each trained a part of the labels (--label-part), or, to a .csv, the results of any runs.

    Parameters
    ----------
    runs:
        Run folders. To join models: those of all parts of one training. To a table: any; those that are judged already (`hpcml
        evaluate --json RUN/measures.json`) with their measures.
    output:
        The run folder to make, or a table NAME.csv: one line a run, with the options in which the runs differ, best first.
    force:
        Replace the output if it exists.
    """
    if not runs:
        raise ConfigError("merge what? name the run folders")
    if output.suffix == ".csv":
        from hpcml.run.sweep import merge_sweep

        say_once(str(merge_sweep(Session.comm, list(runs), output, force)))
    else:
        from hpcml.run.merge import merge_models

        say_once(str(merge_models(Session.comm, list(runs), output, force, Session.log)))


app.command(predict)
app.command(evaluate)
app.command(prune)


@app.command
def check(folder: Path = Path("hpcml-check"), /) -> None:
    """Try, on the ranks that are there, everything that training needs: launcher, cores, messages, files, locks, a tiny run.

    Parameters
    ----------
    folder:
        A new folder on the file system where runs will lie; it is removed again.
    """
    from hpcml.bench.cluster import check as work

    found = work(Session.comm, folder)
    say_once(str(found))
    if Session.comm.bcast(found.n_bad):
        raise ConfigError("this would not train well here: mend what is marked BAD first")


bench_app = App(name="bench", help="Time our kernels beside a library's, in one run.")
app.command(bench_app)


@bench_app.command(name="pass")
def bench_pass(
    file: Path, /, *, block: Annotated[tuple[int, ...], Parameter(negative="")] = (1, 4, 8, 16, 32, 64), repeats: int = 7
) -> None:
    """One pass over the rows for so many labels against scipy's X @ W and X.T @ R together; prints a JSON line for each block.

    Parameters
    ----------
    file:
        A dataset made with `hpcml convert`.
    block:
        Labels that share the pass (may be repeated).
    repeats:
        Timed repetitions; the shortest counts.
    """
    import json

    from hpcml.bench.one_pass import bench_pass as work

    if Session.comm.size > 1:
        raise ConfigError("bench pass compares one core with one core: run it without mpirun")
    for line in work(file, block, repeats):
        say_once(json.dumps(line))


@bench_app.command(name="ovr")
def bench_ovr(
    data: Path,
    /,
    *,
    output: Output,
    method: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    peer: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    tol: Annotated[tuple[float, ...], Parameter(consume_multiple=True, negative="")] = (0.1, 0.01),
    repeat: int = 1,
    peer_python: Path | None = None,
    peer_limit: float = 3600.0,
    options: TrainOptions = TrainOptions(),  # noqa: B008 - frozen
    test_split: str | None = None,
    force: Flag = False,
) -> None:
    """One-versus-rest training of many labels with our methods and with other programs, on the same rows and cores; a table.

    Parameters
    ----------
    data:
        A dataset made with `hpcml convert`.
    output:
        The folder for the run folders, one for each method and tolerance, and ovr.txt, ovr.csv and ovr.json.
    method:
        A method of `hpcml train` (may be repeated). Default: dual and liblinear.
    peer:
        Another trainer: napkinxc, pecos, vowpalwabbit, or none (may be repeated). Default: all that are installed.
    tol:
        Tolerances of the methods that have one, instead of --liblinear-tol and --dual-tol; a table for each.
    repeat:
        Times to train everything, in turn; the least time is shown.
    peer_python:
        A Python that has the other trainers, where they cannot be installed beside hpcml.
    peer_limit:
        Seconds after which another trainer is given up.
    test_split:
        Rows to judge on: a split of the file, or all. Default: test if the file has it.
    force:
        Start anew in existing run folders.
    """
    from hpcml.bench.ovr import OvrOptions
    from hpcml.bench.ovr import bench_ovr as work

    plan = OvrOptions(method, peer, tol, repeat, peer_python, peer_limit)
    say_once(str(work(Session.comm, data, output, plan, options, test_split, force, Session.log, Session.signals)))


app.command(plot_app)
