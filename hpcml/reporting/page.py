"""The HTML page of a report: one file that needs no network, with tables, curves as SVG, and a table library.

Names of labels, words and rows are untrusted. Jinja and the table library escape them, the JSON of the table has escapes for `<`,
and the page's policy allows no script but its own, by digest.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hpcml.errors import ConfigError
from hpcml.evaluation.comparable import BY_SCORE
from hpcml.evaluation.evaluate import HEADINGS, Evaluation
from hpcml.evaluation.intervals import Interval
from hpcml.evaluation.wrong import WrongRow, describe_wrong_row
from hpcml.log import label_with_title, named, plural
from hpcml.reporting import draw
from hpcml.reporting.gather import RunReport
from hpcml.reporting.statistics import Measure, common_labels, compare_measures, learning_curve, list_measures, list_row_measures
from hpcml.version import version

HERE = Path(__file__).parent
NEEDS = ("jinja2", "matplotlib", "itables")
LONGEST = 200  # characters of a name
LONGEST_WORD = 60
N_STATIC = 25  # labels in the page without scripts, those with most rows
ENOUGH_ROWS = 5  # evaluated rows of a label in the comparison, if there are such labels
N_DIFFERENT = 10  # labels with the largest differences between runs, each way


def check_packages() -> None:
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        raise ConfigError(f"a report needs {', '.join(missing)}; install with: pip install 'hpcml[report]'")


def table_library() -> tuple[str, str]:
    """Return DataTables from itables: a module named `library` and its style sheet. Raises ConfigError."""
    spec = find_spec("itables")
    folder = Path(str(spec.origin)).parent / "html" if spec is not None else Path()
    try:
        script, style = ((folder / f"dt_bundle.{end}").read_text(encoding="utf-8") for end in ("js", "css"))
    except OSError as error:
        raise ConfigError(f"unsupported version of itables ({error}); reinstall with: pip install 'hpcml[report]'") from None
    exported = re.search(r"export\s*\{([^{}]*\bas default\b[^{}]*)\};?", script)
    if exported is None or "</script" in script.lower() or "</style" in style.lower():
        raise ConfigError("unsupported version of itables; reinstall with: pip install 'hpcml[report]'")
    default = re.search(r"([\w$]+)\s+as\s+default\b", exported[1])
    return script.replace(exported[0], f"const library={default[1]};"), style


def page(reports: Sequence[RunReport], title: str, date: str, optimiser: bool = False) -> str:
    """Return the page about these runs, made on a date. Raises ConfigError if a package is missing."""
    check_packages()
    import jinja2
    from markupsafe import Markup

    library, library_style = table_library()
    script = f"{library}\n{(HERE / 'page.js').read_text(encoding='utf-8')}"
    loader, strict = jinja2.FileSystemLoader(HERE), jinja2.StrictUndefined
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=strict, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "interval": interval, "signed": signed, "count": lambda value: f"{int(value):,}"}
    environment.filters |= {"named": lambda name: named(name, LONGEST), "plural": plural}
    runs = [run_context(report, index) for index, report in enumerate(reports)]
    return environment.get_template("page.html.j2").render(
        title=title,
        date=date,
        optimiser=optimiser,
        version=version(),
        style=Markup(library_style + (HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        runs=runs,
        comparison=comparison(reports, [run["name"] for run in runs]) if len(reports) > 1 else None,
    )


def number(value: float) -> str:
    """Format a measure, small ones with two digits, undefined ones as –; only 1 itself is 1.000."""
    if math.isnan(value):
        return "–"
    if 0.9995 <= value < 1:
        return "> 0.999"
    return f"{value:.3f}" if value >= 0.01 or value == 0 else f"{value:.2g}"


def signed(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:{'+.3f' if abs(value) >= 0.0005 or value == 0 else '+.1g'}}".replace("-", "−")


def interval(bounds: Interval) -> str:
    return "" if math.isnan(bounds.low) else f"{number(bounds.low)} to {number(bounds.high)}"


def run_context(report: RunReport, index: int) -> dict[str, Any]:
    from markupsafe import Markup

    e, (columns, rows), measures = report.evaluation, label_table(report), list_measures(report.evaluation)

    def wrong_line(each: WrongRow) -> dict[str, Any]:
        line = describe_wrong_row(each, e.label_names, report.row_ids, report.titles)
        label = label_with_title(line["label"], e.label_titles, each.label)
        score_and_threshold = np.array([each.score, report.thresholds[each.label]])
        values = report.convert_scores(score_and_threshold, np.array([each.label, each.label])).tolist()
        texts = [f"{value:.3g}".replace("-", "−") if e.compared_by == BY_SCORE else number(value) for value in values]
        if e.compared_by != BY_SCORE and values[0] < 0.0005 < values[1]:
            texts[0] = "< 0.001"
        return line | {"label": label, "score": texts[0], "threshold": texts[1]}

    # JSON that is safe in a script element
    table = {"kinds": [kind for _, kind in columns], "rows": rows, "order": 1}
    text = json.dumps(table, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    return {
        "name": report.facts.name or f"run {index + 1}",
        "id": f"run-{index}",
        "report": report,
        "evaluation": e,
        "data": str(report.data),
        "data_name": report.data.name,
        "headline": headline(e, measures),
        "measures": measures.values(),
        "row_measures": list_row_measures(e),
        "figures": figures(report, index),
        "wrong": {kind: list(map(wrong_line, lines)) for kind, lines in report.wrong.items()},
        "columns": columns,
        "lines": [rows[k] for k in np.argsort(-report.frequency[report.table_labels], kind="stable")[:N_STATIC].tolist()],
        "table": Markup(re.sub("[<>&\u2028\u2029]", lambda letter: escapes[letter[0]], text)),
    }


def headline(e: Evaluation, measures: Mapping[str, Measure]) -> list[tuple[str, Interval, str]]:
    row_measures, is_single = list_row_measures(e), len(e.label_names) == 1
    precision, recall, ap, f1, auc = (measures[name] for name in ("precision", "recall", "average_precision", "f1", "auc"))
    micro, macro = ("", "") if is_single else ("micro ", "macro ")
    decided = f"precision {number(precision.micro.value)}, recall {number(recall.micro.value)}"
    ranked = "ranking of the rows for a label" + ("" if is_single else f", mean over {plural(ap.n_labels, 'label')}")
    tiles = [(f"{micro}F1", f1.micro, decided), (f"{macro}average precision", ap.macro, ranked)]
    if "P@1" in row_measures:
        return [*tiles, ("P@1", row_measures["P@1"], "share of rows whose best label is true")]
    return [*tiles, (f"{macro}ROC AUC", auc.macro, "probability that a positive row has a larger score than a negative one")]


def figures(report: RunReport, index: int) -> list[dict[str, Any]]:
    from markupsafe import Markup

    e, drawn = report.evaluation, []

    def add(name: str, title: str, text: str, *figure: Any) -> None:
        drawn.append({"title": title, "text": text, "svg": Markup(draw.svg(f"{name}-{index}", title, *figure))})

    if report.micro.scores.size:
        rows = "training" if report.n_trained_on is not None else "evaluated"
        curves = [report.micro, *(report.of_groups if len(report.of_groups) > 1 else [])]
        text = f"All pairs of a row and a label in one ranking, and by the number of {rows} rows of labels. AP: average precision."
        add("recall", "Precision and recall", text, draw.precision_recall, curves[: draw.N_COLORS])
        text = "Micro measures with one threshold for all labels. The best F1 (dot) is optimistic: it is chosen on these rows."
        add("threshold", "Threshold and F1", text, draw.by_threshold, report.micro, report.one_threshold, e.compared_by)
    lines, spread = [], []
    for measure, name in (("average_precision", "average precision"), ("f1", "F1")):
        selected = e.in_macro(measure) & (report.frequency > 0)
        lines.append((name, learning_curve(report.frequency[selected], e.values[measure][selected])))
        spread.append((name, e.values[measure][e.in_macro(measure)]))
    if len(lines[0][1]) > 1:
        text = "Mean and quartiles over labels with similar numbers of positive rows. The numbers count labels."
        add("learning", "Quality by number of training rows", text, draw.learning, [line for line in lines if line[1]])
    if len(e.label_names) > 1 and spread[0][1].size:
        text = "Share of labels whose measure is at least the value on the axis."
        add("spread", "Distribution over labels", text, draw.spread, [line for line in spread if line[1].size])
    if report.bins:
        text = "Share of true pairs by predicted probability. Below the diagonal probabilities are too high."
        text += " The numbers count pairs."
        add("reliability", "Reliability of probabilities", text, draw.reliability, report.bins)
    return drawn


def label_table(report: RunReport) -> tuple[list[tuple[str, str]], list[list[Any]]]:
    """Return heading and kind (text, count, measure, score, words) of columns, and a line for each label; None is undefined."""
    e, labels = report.evaluation, report.table_labels
    threshold = f"threshold ({e.compared_by})", "score" if e.compared_by == BY_SCORE else "measure"
    names = {heading: measure for measure, heading in HEADINGS.items()}
    columns: dict[tuple[str, str], Any] = {
        ("label", "text"): [named(label_with_title(e.label_names[k], e.label_titles, k), LONGEST) for k in labels.tolist()],
        ("training rows", "count"): None if report.n_trained_on is None else report.n_trained_on[labels],
        ("evaluated rows", "count"): e.n_positive[labels],
        **{(heading, "measure"): e.values[name][labels] for heading, name in names.items()},
        threshold: report.converted_thresholds[labels] if report.one_threshold is None else None,
        ("status", "text"): report.status if len(set(report.status or ())) > 1 else None,
        ("gap", "score"): report.gap,
    }
    if report.words is not None:  # − before features with negative weights
        signs = (((("−" if weight < 0 else "") + named(word, LONGEST_WORD)) for word, weight in words) for words in report.words)
        columns["strongest features", "words"] = list(map(", ".join, signs))
    cells = {heading: list(column) for heading, column in columns.items() if column is not None}
    for (name, kind), column in columns.items():
        if isinstance(column, np.ndarray):
            values, form = column.tolist(), {"gap": ".2g", "threshold (score)": ".3g"}.get(name, ".6g")
            if kind in ("measure", "score"):
                finite = [value if math.isfinite(value) else None for value in values]
                values = [v if v is None else round(v, 4) if name in names else float(f"{v:{form}}") for v in finite]
            cells[name, kind] = values
    return list(cells), [list(line) for line in zip(*cells.values(), strict=True)]


def comparison(reports: Sequence[RunReport], names: Sequence[str]) -> dict[str, Any]:
    from markupsafe import Markup

    evaluations, figure = [report.evaluation for report in reports], None
    measures = [{each.name: each for each in list_measures(e).values()} for e in evaluations]
    curves = [replace(r.micro, name=name) for r, name in zip(reports, names, strict=True) if r.micro.scores.size]
    if curves:
        drawn = (draw.precision_recall, curves[: draw.N_COLORS])
        figure = Markup(draw.svg("compared", "Precision and recall of the runs", *drawn))
    return {
        "same_rows": len({(str(report.data), report.evaluation.split) for report in reports}) == 1,
        "names": names,
        "measures": {name: [line.get(name) for line in measures] for line in measures for name in line},
        "row_measures": [list_row_measures(e) for e in evaluations],
        "figure": figure,
        "others": [compare_runs(evaluations[0], other, name) for name, other in zip(names[1:], evaluations[1:], strict=True)],
    }


def compare_runs(first: Evaluation, other: Evaluation, name: str) -> dict[str, Any]:
    positions = common_labels([first, other])
    a, b = (e.values["average_precision"][p] for e, p in zip((first, other), positions, strict=True))
    change, order = b - a, np.argsort(-(b - a), kind="stable")
    enough = first.n_positive[positions[0]] >= ENOUGH_ROWS  # with fewer rows average precision depends mostly on chance
    order = order[(enough if enough.any() else np.ones_like(enough))[order] & ~np.isnan(change[order])]

    def lines(labels: np.ndarray) -> list[tuple[str, int, float, float, float]]:
        at = [(k, int(positions[0, k])) for k in labels.tolist()]
        return [(first.label_names[i], int(first.n_positive[i]), float(a[k]), float(b[k]), float(change[k])) for k, i in at]

    most, least = order[:N_DIFFERENT], order[::-1][:N_DIFFERENT]
    return {
        "name": name,
        "n_common": positions.shape[1],
        "differences": compare_measures(first, other),
        "better": lines(most[change[most] > 0]),
        "worse": lines(least[change[least] < 0]),
        "least": ENOUGH_ROWS if enough.any() else 1,
    }
