"""The page: one HTML file that needs no network, with tables, curves as SVG, and a table library.

Names of labels, words and rows come from whoever made the data. Jinja escapes them, the table escapes them, the data for the table
are JSON in which `<` is written as an escape, and the page forbids itself every script but its own by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hpcml.errors import ConfigError
from hpcml.evaluation.comparable import BY_SCORE
from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.wrong import WrongRow, with_names
from hpcml.log import label_with_title, named, plural
from hpcml.reporting import draw
from hpcml.reporting.gather import RunReport
from hpcml.reporting.statistics import Interval, Measure, common_labels, differences, learning_curve, measures_of, row_measures_of
from hpcml.version import version

HERE = Path(__file__).parent
NEEDS = ("jinja2", "matplotlib", "itables")
LONGEST = 200  # letters of a name
LONGEST_WORD = 60
STATIC = 25  # labels in the page without its script, those of most rows
ENOUGH = 5  # judged rows of such a label, if there are labels with so many
APART = 10  # labels in which runs differ most, each way


def check_packages() -> None:
    """Raise ConfigError unless the packages are there that a page needs."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        raise ConfigError(f"a report needs {', '.join(missing)}; install what is missing with: pip install 'hpcml[report]'")


def table_library() -> tuple[str, str]:
    """DataTables of itables: a module named `library`, its style sheet. Raises ConfigError."""
    spec = find_spec("itables")
    folder = Path(str(spec.origin)).parent / "html" if spec is not None else Path()
    try:
        script, style = ((folder / f"dt_bundle.{end}").read_text(encoding="utf-8") for end in ("js", "css"))
    except OSError as error:
        raise ConfigError(f"itables is not as expected ({error}); install it anew with: pip install 'hpcml[report]'") from None
    exported = re.search(r"export\s*\{([^{}]*\bas default\b[^{}]*)\};?", script)
    if exported is None or "</script" in script.lower() or "</style" in style.lower():
        raise ConfigError("itables is of another version than hpcml knows; install one with: pip install 'hpcml[report]'")
    default = re.search(r"([\w$]+)\s+as\s+default\b", exported[1])
    assert default is not None
    return script.replace(exported[0], f"const library={default[1]};"), style


def page(reports: Sequence[RunReport], title: str, date: str, optimiser: bool = False) -> str:
    """The page about some runs, made on a date. Local; raises ConfigError if a package is missing.

    `optimiser`: with the facts about the optimiser.
    """
    check_packages()
    import jinja2
    from markupsafe import Markup

    library, library_style = table_library()
    script = f"{library}\n{(HERE / 'page.js').read_text(encoding='utf-8')}"
    loader, strict = jinja2.FileSystemLoader(HERE), jinja2.StrictUndefined
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=strict, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "interval": interval, "signed": signed, "named": shown, "count": count}
    environment.filters["plural"] = plural
    runs = [run_context(report, place) for place, report in enumerate(reports)]
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


def shown(name: str) -> str:
    """A name from the data, as letters that can be seen."""
    return named(name, LONGEST)


def number(value: float) -> str:
    """A measure, small ones with two digits; – if undefined. Only 1 itself is 1.000."""
    if math.isnan(value):
        return "–"
    if 0.9995 <= value < 1:
        return "> 0.999"
    return f"{value:.3f}" if value >= 0.01 or value == 0 else f"{value:.2g}"


def count(value: float) -> str:
    """A whole number."""
    return f"{int(value):,}"


def signed(value: float) -> str:
    """A difference of measures, small ones with one digit."""
    return "–" if math.isnan(value) else f"{value:{'+.3f' if abs(value) >= 0.0005 or value == 0 else '+.1g'}}".replace("-", "−")


def interval(found: Interval) -> str:
    """The bounds of an interval; nothing if there are none."""
    return "" if math.isnan(found.low) else f"{number(found.low)} to {number(found.high)}"


def run_context(report: RunReport, place: int) -> dict[str, Any]:
    """The values of one run for the template."""
    from markupsafe import Markup

    e, (columns, rows), measures = report.evaluation, label_table(report), measures_of(report.evaluation)

    def wrong_line(each: WrongRow) -> dict[str, Any]:
        line = with_names(each, e.label_names, report.row_ids, report.titles)
        label = label_with_title(line["label"], e.label_titles, each.label)
        score_and_threshold = np.array([each.score, report.thresholds[each.label]])
        values = report.convert_scores(score_and_threshold, np.array([each.label, each.label])).tolist()
        texts = [f"{value:.3g}".replace("-", "−") if e.compared_by == BY_SCORE else number(value) for value in values]
        if e.compared_by != BY_SCORE and values[0] < 0.0005 < values[1]:
            texts[0] = "< 0.001"
        return line | {"label": label, "score": texts[0], "threshold": texts[1]}

    # JSON that can stand in a script element, whatever it says
    table = {"kinds": [kind for _, kind in columns], "rows": rows, "order": 1}
    text = json.dumps(table, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    return {
        "name": report.facts.name or f"run {place + 1}",
        "id": f"run-{place}",
        "report": report,
        "evaluation": e,
        "data": str(report.data),
        "data_name": report.data.name,
        "headline": headline(e, measures),
        "measures": measures,
        "row_measures": row_measures_of(e),
        "figures": figures(report, place),
        "wrong": {kind: list(map(wrong_line, some)) for kind, some in report.wrong.items()},
        "columns": columns,
        "lines": [rows[place] for place in np.argsort(-report.frequency[report.listed], kind="stable")[:STATIC].tolist()],
        "table": Markup(re.sub("[<>&\u2028\u2029]", lambda letter: escapes[letter[0]], text)),
    }


def headline(e: Evaluation, measures: Sequence[Measure]) -> list[tuple[str, Interval, str]]:
    """The three most important figures: name, value with its interval, meaning."""
    by_name, of_rows = {each.name: each for each in measures}, dict(row_measures_of(e))
    precision, recall, ap, f1, auc = (by_name[name] for name in ("precision", "recall", "average precision", "F1", "AUC (ROC)"))
    is_single = len(e.label_names) == 1
    micro, macro = ("", "") if is_single else ("micro ", "macro ")
    decided = f"{number(precision.micro.value)} of the labels given are true, "
    decided += f"{number(recall.micro.value)} of the true labels are given"
    ranked = "how well a label ranks the rows" + ("" if is_single else f", mean of {plural(ap.n_labels, 'label')}")
    tiles = [(f"{micro}F1", f1.micro, decided), (f"{macro}average precision", ap.macro, ranked)]
    if "precision@1" in of_rows:
        return [*tiles, ("precision@1", Interval(of_rows["precision@1"]), "share of rows whose first label is true")]
    ordered = "how often a row with the label has a larger score than one without"
    return [*tiles, (f"{macro}AUC", auc.macro, ordered)]


def figures(report: RunReport, place: int) -> list[dict[str, Any]]:
    """The curves of a run: a title, what is to be seen, and the picture."""
    from markupsafe import Markup

    e, found = report.evaluation, []

    def add(name: str, title: str, text: str, *picture: Any) -> None:
        found.append({"title": title, "text": text, "svg": Markup(draw.svg(f"{name}-{place}", title, *picture))})

    if report.micro.scores.size:
        of = "training rows" if report.n_trained_on is not None else "judged rows"
        curves = [report.micro, *(report.of_groups if len(report.of_groups) > 1 else [])]
        text = f"All pairs of a row and a label in one ranking; and those of the labels with so many {of}. AP: average precision."
        add("recall", "Precision and recall", text, draw.precision_recall, curves[: draw.N_COLORS])
        text = (
            "Micro measures, were one threshold for all labels. The dot is the best F1 on these very rows: others will have less."
        )
        add("threshold", "Threshold and F1", text, draw.by_threshold, report.micro, report.one_threshold, e.compared_by)
    lines, spread = [], []
    for measure, name in (("average_precision", "average precision"), ("f1", "F1")):
        chosen = e.in_macro(measure) & (report.frequency > 0)
        lines.append((name, learning_curve(report.frequency[chosen], e.values[measure][chosen])))
        spread.append((name, e.values[measure][e.in_macro(measure)]))
    if len(lines[0][1]) > 1:
        text = "Means of labels with about as many positive rows; in the shade lies the middle half. The numbers count labels."
        add("learning", "How many rows a label needs", text, draw.learning, [line for line in lines if line[1]])
    if len(e.label_names) > 1 and spread[0][1].size:
        text = "Which share of the labels reaches a measure, or more."
        add("spread", "Spread over the labels", text, draw.spread, [line for line in spread if line[1].size])
    if report.bins:
        text = "Do predicted probabilities come true? Below the diagonal they are too high. The numbers count pairs."
        add("reliability", "Reliability of probabilities", text, draw.reliability, report.bins)
    return found


def label_table(report: RunReport) -> tuple[list[tuple[str, str]], list[list[Any]]]:
    """Heading and kind (text, count, measure, score, words) of the columns of labels; and a line for each label that is listed.

    None where there is no measure.
    """
    e, listed = report.evaluation, report.listed
    threshold = f"threshold ({e.compared_by})", "score" if e.compared_by == BY_SCORE else "measure"
    names = {"AP": "average_precision", "F1": "f1", "AUC": "auc", "precision": "precision", "recall": "recall"}
    columns: dict[tuple[str, str], Any] = {
        ("label", "text"): [shown(label_with_title(e.label_names[place], e.label_titles, place)) for place in listed.tolist()],
        ("training rows", "count"): None if report.n_trained_on is None else report.n_trained_on[listed],
        ("judged rows", "count"): e.n_positive[listed],
        **{(short, "measure"): e.values[name][listed] for short, name in names.items()},
        threshold: report.converted_thresholds[listed] if report.one_threshold is None else None,
        ("status", "text"): report.status if len(set(report.status or ())) > 1 else None,
        ("gap", "score"): report.gap,
    }
    if report.words is not None:  # − before those that speak against the label
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
    """The runs side by side: measures, differences from the first one, labels that differ most."""
    from markupsafe import Markup

    evaluations, figure = [report.evaluation for report in reports], None
    measures = [{each.name: each for each in measures_of(e)} for e in evaluations]
    curves = [replace(r.micro, name=name) for r, name in zip(reports, names, strict=True) if r.micro.scores.size]
    if curves:
        drawn = (draw.precision_recall, curves[: draw.N_COLORS])
        figure = Markup(draw.svg("compared", "Precision and recall of the runs", *drawn))
    return {
        "same_rows": len({(str(report.data), report.evaluation.split) for report in reports}) == 1,
        "names": names,
        "measures": {name: [line.get(name) for line in measures] for line in measures for name in line},
        "row_measures": [dict(row_measures_of(e)) for e in evaluations],
        "figure": figure,
        "others": [beside(evaluations[0], other, name) for name, other in zip(names[1:], evaluations[1:], strict=True)],
    }


def beside(first: Evaluation, other: Evaluation, name: str) -> dict[str, Any]:
    """Another run beside the first one: differences, and the labels that differ most."""
    places = common_labels([first, other])
    a, b = (e.values["average_precision"][p] for e, p in zip((first, other), places, strict=True))
    change, order = b - a, np.argsort(-(b - a), kind="stable")
    enough = first.n_positive[places[0]] >= ENOUGH  # in fewer rows a label's average precision is mostly chance
    order = order[(enough if enough.any() else np.ones_like(enough))[order] & ~np.isnan(change[order])]

    def lines(some: np.ndarray) -> list[tuple[str, int, float, float, float]]:
        at = [(k, int(places[0, k])) for k in some.tolist()]
        return [(first.label_names[i], int(first.n_positive[i]), float(a[k]), float(b[k]), float(change[k])) for k, i in at]

    most, least = order[:APART], order[::-1][:APART]
    return {
        "name": name,
        "n_common": places.shape[1],
        "differences": differences(first, other),
        "better": lines(most[change[most] > 0]),
        "worse": lines(least[change[least] < 0]),
        "least": ENOUGH if enough.any() else 1,
    }
