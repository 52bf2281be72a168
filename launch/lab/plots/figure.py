"""Figures for a picture file, and those of how PROBE converges (PROBE 2012, figures 1 to 3).

matplotlib is an optional dependency, imported when a picture is drawn.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hpcml.errors import ConfigError
from hpcml.files.atomic import check_new, write_whole
from hpcml.files.table import write_table
from hpcml.log import joined, named
from hpcml.methods.probe.convergence import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Metadata that would hold the time or the version of matplotlib, so that equal traces give equal files.
METADATA = {
    ".pdf": {"Creator": "hpcml", "Producer": None, "CreationDate": None},
    ".png": {"Software": None},
    ".svg": {"Creator": "hpcml", "Date": None},
}
SETTINGS = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "legend.frameon": False,
    "svg.hashsalt": "hpcml",
}
# Colours of Okabe & Ito, which the colour-blind tell apart; dashes and widths for those who print in grey.
BLUE, VERMILION, GREEN, ORANGE, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
GREY = {"s": 6, "color": "0.8", "linewidths": 0, "rasterized": True}  # of rows among which others stand
STYLES = {
    "PROBE": {"color": BLUE, "linestyle": "-", "linewidth": 1.8, "zorder": 4},
    "PROBE*": {"color": VERMILION, "linestyle": "--", "linewidth": 1.6, "zorder": 3},
    "IDEAL": {"color": GREEN, "linestyle": "-.", "linewidth": 1.6, "zorder": 2},
}
MEANINGS = {
    "PROBE": "PROBE: estimates the minimum as it goes",
    "PROBE*": "PROBE*: is told the minimum $f(w^*)$",
    "IDEAL": "IDEAL: is told $w^*$ itself",
}
LIGHT = 0.6  # opacity of the algorithms that a panel is not about
LOG_FROM = 10.0  # a range of f this wide gets a logarithmic axis
MANY_DECADES = 1e3  # from here on only powers of ten have a number
LEAST_SPAN = 0.1  # of the break-even axis, so that noise does not look like a trend
COLUMNS = ("algorithm", "step", "distance", "f", "break_even")


def check_picture(path: Path) -> None:
    """Raise ConfigError unless `path` ends in .pdf, .png or .svg and matplotlib is there."""
    suffix = path.suffix.lower()
    if suffix not in METADATA:
        raise ConfigError(
            f"{path}: cannot draw a {suffix or 'file without a suffix'}; choose a name that ends in {', '.join(METADATA)}"
            " (drawing needs matplotlib: pip install 'hpcml[plot]')"
        )
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"{path}: drawing needs matplotlib ({error}); install it with: pip install 'hpcml[plot]'") from None


def check_outputs(picture: Path, force: bool, inputs: list[Path]) -> None:
    """Raise ConfigError or DataError if picture or table cannot be made: now, not later. Local."""
    check_picture(picture)
    for path in (picture, picture.with_suffix(".csv")):
        check_new(path, force, inputs)


@contextmanager
def drawn(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure of so many inches, written to `path` after the body. Local; as `check_picture`."""
    check_picture(path)
    import matplotlib.style
    from matplotlib.figure import Figure

    picture, suffix = io.BytesIO(), path.suffix.lower()
    with matplotlib.style.context(["default", SETTINGS]), warnings.catch_warnings():  # whatever the user's matplotlibrc says
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # of a name: a box is drawn for it
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.15, h_pad=0.1)
        yield figure
        figure.savefig(picture, format=suffix[1:], dpi=100, metadata=METADATA[suffix])
    write_whole(path, picture.getvalue())


def told(found: object, picture: Path) -> str:
    """What was found, and where its picture and the numbers of it are."""
    return f"{found}\n" + joined([f"picture: {picture}", f"numbers: {picture.with_suffix('.csv')}"])


def plot_convergence(label: str, traces: Sequence[Trace], path: Path) -> None:
    """Draw figures 1 to 3 for one label. Local; raises as `check_picture`, or DataError."""
    with drawn(path, 12, 11.5) as figure:
        panels = figure.subplots(3, sharex=True)
        for draw, axes in zip((_draw_distance, _draw_loss, _draw_break_even), panels, strict=True):
            draw(axes, traces)
            _mark_solution(axes, traces)
        panels[0].set_xlim(left=0)
        figure.align_ylabels()
        panels[-1].set_xlabel("iteration t  (one pass over the training rows each)")
        title = "How PROBE converges on the label: " + named(label, 70)
        legend = figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, title=title)
        legend.get_title().set(fontsize=15, fontweight="bold", parse_math=False)


def _draw_distance(axes: Axes, traces: Sequence[Trace]) -> None:
    """Figure 1; its labels say what the algorithms are, and which of them stopped before PROBE."""
    longest = max(len(trace.f) for trace in traces)
    for trace in traces:
        n = len(trace.f)
        stopped = rf" (reached $f(w_t) \leq f(w^*)$ at t = {n})" if n < longest else ""
        (line,) = axes.plot(range(1, n + 1), trace.distance, label=MEANINGS[trace.name] + stopped, **STYLES[trace.name])
        if stopped:
            axes.plot(n, trace.distance[-1], "s", color=line.get_color())
    axes.set_title("1  Distance to the solution: PROBE may step away from it, the other two cannot")
    axes.set(ylabel=r"$\|w_t - w^*\|$", ylim=(0, None))


def _draw_loss(axes: Axes, traces: Sequence[Trace]) -> None:
    """Figure 2."""
    for trace in traces:
        axes.plot(range(1, len(trace.f) + 1), trace.f, alpha=_opacity(trace), **STYLES[trace.name])
    low, high = (extreme(f for trace in traces for f in trace.f) for extreme in (min, max))
    if 0 < low * LOG_FROM < high:
        axes.set_yscale("log")
        axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5) if high < low * MANY_DECADES else (1,))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
    title = "2  Objective on the training rows: every second rise ends a cycle of PROBE"
    axes.set(title=title, ylabel="$f(w_t)$  (mean loss + regularisation)")


def _draw_break_even(axes: Axes, traces: Sequence[Trace]) -> None:
    """Figure 3; a break-even that is not defined (NaN) leaves a gap."""
    for trace in traces:
        steps, values = ([pair[i] for pair in trace.break_even] for i in (0, 1))
        axes.plot(steps, values, marker="o", markersize=4, alpha=_opacity(trace), **STYLES[trace.name])
    values = [value for trace in traces for _, value in trace.break_even if not math.isnan(value)]
    if values:
        middle = (min(values) + max(values)) / 2
        reach = max(LEAST_SPAN, 1.1 * (max(values) - min(values))) / 2
        axes.set_ylim(middle - reach, min(middle + reach, 1.0 + reach / 20))
    else:
        axes.text(0.5, 0.5, "not defined: no test row has this label", transform=axes.transAxes, ha="center")
    title = "3  Quality on the test rows, every 10 iterations: break-even, where precision = recall"
    axes.set(title=title, ylabel="break-even  (1 is perfect)")


def _opacity(trace: Trace) -> float:
    return 1.0 if trace.name == "PROBE" else LIGHT


def _mark_solution(axes: Axes, traces: Sequence[Trace]) -> None:
    """A line where PROBE's f is least: there w_t = w*."""
    for trace in traces:
        if trace.name == "PROBE":
            best = trace.f.index(min(trace.f)) + 1
            what = f"t = {best}: least f of PROBE, its $w_t$ is called $w^*$"
            axes.axvline(best, color="0.35", linewidth=1.2, linestyle=":", label=what)


def write_traces_csv(traces: Sequence[Trace], path: Path) -> None:
    """A line a step; break_even is empty where there is none. Local; raises DataError."""
    rows: list[tuple[object, ...]] = [COLUMNS]
    for trace in traces:
        measured = {step: value for step, value in trace.break_even if not math.isnan(value)}
        for step, (distance, f) in enumerate(zip(trace.distance, trace.f, strict=True), start=1):
            rows.append((trace.name, step, distance, f, measured.get(step, "")))
    write_table(path, rows)
