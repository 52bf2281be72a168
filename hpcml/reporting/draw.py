"""Curves of a report, as SVG by matplotlib with the colours of the page's style sheet."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcml.evaluation.comparable import BY_SCORE, probability
from hpcml.evaluation.curves import Bin, Curve
from hpcml.log import named
from hpcml.reporting.statistics import LearningPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_COLORS = 8
# Placeholders that are replaced by variables of the style sheet; the figures have no other colours.
TEXT, GRID, PAGE = "#010101", "#020202", "#030303"
COLORS = tuple(f"#0404{number:02x}" for number in range(N_COLORS))
VARIABLES = {TEXT: "var(--text)", GRID: "var(--grid)", PAGE: "var(--page)"}
VARIABLES |= {color: f"var(--curve-{number})" for number, color in enumerate(COLORS)}
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
STYLE = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "legend.labelcolor"), TEXT),
    "svg.fonttype": "none",
    "axes.facecolor": "none",
    "grid.color": GRID,
    "legend.fontsize": 11,
    "legend.columnspacing": 3,
    "text.parse_math": False,
}
SIZE = (6.0, 4.3)  # inches
POINTS = 300  # of a curve
LONGEST = 24  # characters of a name in a legend of two columns


def svg(name: str, title: str, draw: Callable[..., None], *content: Any) -> str:
    """Return the figure that `draw` makes from axes and content, as SVG; `name` must be unique on the page."""
    import matplotlib.style
    from matplotlib.figure import Figure

    out = io.StringIO()
    with matplotlib.style.context(["default", STYLE, {"svg.hashsalt": f"hpcml {name}"}]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        axes.set_axisbelow(True)
        draw(axes, *content)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _make_inline(out.getvalue(), title)


def _make_inline(text: str, title: str) -> str:
    from markupsafe import escape

    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' id="[A-Za-z]+[\w.]*_\d+"', "", text)
    view = re.search(r'viewBox="[^"]*"', text)
    start = f'<svg {view[0]} xmlns:xlink="http://www.w3.org/1999/xlink" role="img" aria-label="{escape(title)}">'
    text = start + text[text.index(">") + 1 :]
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for color, variable in VARIABLES.items():
        text = text.replace(color, variable)
    return re.sub(r"\n\s*", "\n", text)


def precision_recall(axes: "Axes", curves: Sequence[Curve]) -> None:
    for number, curve in enumerate(curves):
        thinned = curve.thinned(POINTS)
        label = f"{named(curve.name, LONGEST)}: AP {curve.average_precision:.3f}"
        axes.plot(thinned.recall, thinned.precision, label=label, **_line(number, 2.2 if number == 0 else 1.4))
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision")


def _line(number: int, width: float) -> dict[str, Any]:
    color, dashes = COLORS[number % N_COLORS], DASHES[number % len(DASHES)]
    return {"color": color, "linestyle": dashes, "linewidth": width, "zorder": 10 - min(number, 8)}


def by_threshold(axes: "Axes", curve: Curve, present: float | None, unit: str) -> None:
    """Plot micro measures by one threshold for all labels; `present`: the threshold of the model; `unit`: probability or score."""
    thinned = curve.thinned(POINTS)
    best, by_score = int(thinned.f1.argmax()), unit == BY_SCORE
    thresholds = thinned.scores if by_score else np.array(list(map(probability, thinned.scores.tolist())))  # of log-odds
    name = f"F1, maximum {thinned.f1[best]:.3f} at {thresholds[best]:.3g}"
    for number, (label, values) in enumerate(((name, thinned.f1), ("precision", thinned.precision), ("recall", thinned.recall))):
        axes.plot(thresholds, values, label=label, **_line(number, 2.2 if number == 0 else 1.4))
    axes.plot(thresholds[best], thinned.f1[best], "o", color=COLORS[0], zorder=12)
    low, high = np.percentile(thresholds, [1, 99]).tolist() if by_score else (0.0, 1.0)
    if present is not None:
        axes.axvline(present, color=TEXT, linewidth=1, linestyle=":", label=f"model: {present:.3g}")
        low, high = min(low, present), max(high, present)
    margin = (0.03 * (high - low) or 1.0) if by_score else 0.0
    axes.set(xlim=(low - margin, high + margin), ylim=(0, 1.02), xlabel=f"threshold of all labels ({unit})", ylabel="micro measure")


def learning(axes: "Axes", lines: Sequence[tuple[str, Sequence[LearningPoint]]]) -> None:
    for number, (name, points) in enumerate(lines):
        x = [point.n_positive for point in points]
        low, high = ([point.quartiles[k] for point in points] for k in (0, 2))
        axes.fill_between(x, low, high, color=COLORS[number], alpha=0.15, linewidth=0)
        axes.plot(x, [p.mean for p in points], marker="o", markersize=4, label=f"mean {name}", **_line(number, 2.0))
        for each in points if number == 0 else ():
            point = (each.n_positive, each.mean)
            axes.annotate(_short(each.n_labels), point, (0, 7), textcoords="offset points", ha="center", fontsize=9)
    axes.set(xscale="log", ylim=(0, 1.02), xlabel="positive rows of the label in training", ylabel="measure")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("")


def spread(axes: "Axes", lines: Sequence[tuple[str, np.ndarray]]) -> None:
    for number, (name, values) in enumerate(lines):
        edges = np.linspace(0, 1, 201)
        shares = 1 - np.searchsorted(np.sort(values), edges, "left") / max(1, values.size)
        axes.plot(edges, 100 * shares, label=f"{name}, median {np.median(values):.3f}", **_line(number, 2.0))
    axes.set(xlim=(0, 1), ylim=(0, 102), xlabel="measure", ylabel="labels with at least this value (%)")


def reliability(axes: "Axes", bins: Sequence[Bin]) -> None:
    axes.plot([0, 1], [0, 1], color=TEXT, linewidth=1, linestyle=":", label="perfect")
    x, y = [each.probability for each in bins], [each.share_true for each in bins]
    axes.plot(x, y, marker="o", markersize=5, label="all pairs of a row and a label", **_line(0, 2.0))
    for each, point in zip(bins, zip(x, y, strict=True), strict=True):
        side = ((6, -4), "top") if point[1] > 0.08 else ((16, 2), "bottom")  # not over the numbers of the axis
        axes.annotate(_short(each.n), point, side[0], textcoords="offset points", va=side[1], fontsize=9)
    axes.set(xlim=(0, 1.08), ylim=(0, 1.02), xlabel="predicted probability (mean of a bin)", ylabel="share of true pairs")


def _short(n: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if n >= size:
            return f"{n / size:.3g}{letter}"
    return str(n)
