"""The commands of `hpcml plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from hpcml.cli.session import Here, Output, Picture, ReplacePicture, say_once
from hpcml.reduce.options import CurveOptions

MovedData = Annotated[Path, Parameter(help="Where the run's dataset is now, if it was moved.")]

plot_app = App(name="plot", help="Draw pictures (needs matplotlib: pip install 'hpcml[plot]').")


@plot_app.command(name="convergence")
def plot_convergence(
    run: Path,
    /,
    *,
    label: str | None = None,
    output: Output | None = None,
    data: MovedData | None = None,
    test_split: str | None = None,
    force: ReplacePicture = False,
    session: Here,
) -> None:
    """How PROBE converges on one label, beside PROBE* and IDEAL: distance to the solution,
    objective, break-even; and a CSV.

    Parameters
    ----------
    run:
        The folder of a finished run of the method probe.
    label:
        A label of its model. Default: the one with the most positive rows.
    output:
        The picture to make (.png, .pdf or .svg); its numbers go to a .csv beside it. Default:
        RUN/convergence-LABEL.png.
    test_split:
        Rows for the break-even: a split of the file, or all. Default: test if the file has it.
    """
    from hpcml.plots.convergence import plot_run as work

    say_once(session, str(work(session.comm, run, label, output, data, test_split, force, session.log)))


@plot_app.command(name="psbml")
def plot_psbml(
    run: Path, /, *, output: Output | None = None, data: MovedData | None = None, force: ReplacePicture = False, session: Here
) -> None:
    """A run of PSBML: its torus, where the margin data lie, validation error and distinct rows by
    cycle; and a CSV.

    Parameters
    ----------
    run:
        The folder of a finished run of the method psbml.
    output:
        The picture to make (.png, .pdf or .svg); its numbers go to a .csv beside it. Default:
        RUN/psbml.png.
    """
    from hpcml.plots.psbml import plot_run as work

    say_once(session, work(session.comm, run, output, data, force))


@plot_app.command(name="sparsity")
def plot_sparsity(run: Path, /, *, output: Output | None = None, force: ReplacePicture = False, session: Here) -> None:
    """How many weights of a run of elastic-net were not 0 after each step; and a CSV.

    Parameters
    ----------
    run:
        The folder of a finished run of the method elastic-net.
    output:
        The picture to make (.png, .pdf or .svg); its numbers go to a .csv beside it. Default:
        RUN/sparsity.png.
    """
    from hpcml.plots.sparsity import plot_run as work

    say_once(session, work(session.comm, run, output, force))


@plot_app.command(name="selection")
def plot_selection(
    data: Path,
    /,
    *,
    output: Picture,
    options: CurveOptions = CurveOptions(),  # noqa: B008 - frozen
    force: ReplacePicture = False,
    session: Here,
) -> None:
    """Test error of mbw by number of features: EFS, information gain, chi-square (one pass each);
    and a CSV.

    Parameters
    ----------
    data:
        A dataset with splits train and test.
    """
    from hpcml.plots.selection import plot_selection as work

    say_once(session, work(session.comm, data, output, options, force, session.log))
