"""The page of all outcomes, from the JSON files of studies: `python -m launch.lab page`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from textwrap import fill

from hpcml.errors import ConfigError, DataError
from launch.lab.core.exhibit import Exhibit, Paper
from launch.lab.core.outcome import WORDS, Outcome, format_pair, format_rows
from launch.lab.core.tables import read_json

WIDTH = 100  # columns
HEAD = """# The five papers

<!-- for: readers of the papers: which claims hold, on which data, and which command shows it -->

The tables list every table and figure of the five papers. Numbers are ours; those of the paper are
in brackets. All numbers of an exhibit unfold below its claims. A claim is judged by a rule that was
written before the run and is part of its sentence. The same command gives the same numbers again on
any number of ranks, except for seconds, memory, asynchronous runs (PSBML's table 6), and results of
scikit-learn, which depend on its version.
"""


def read_outcomes(folder: Path) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes by paper and exhibit. Raises ConfigError and DataError."""
    paths = sorted(folder.glob("*-*.json")) if folder.is_dir() else []
    if not paths:
        raise ConfigError(f"{folder} has no PAPER-EXHIBIT.json of a study")
    outcomes = {}
    for path in paths:
        try:
            content = read_json(path)
            outcome = Outcome(**{field.name: content[field.name] for field in fields(Outcome)})
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is not the outcome of a study: {error}") from None
        outcomes[outcome.paper, outcome.exhibit] = outcome
    return outcomes


def page(papers: Iterable[Paper], outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    parts = [HEAD]
    for paper in papers:
        parts += [f"## {paper.title}", _wrapped(f"{paper.source}. {paper.claims}"), _table_of_tables(paper, outcomes)]
        if paper.learnt:
            parts += ["Results beyond the paper:", "\n".join(_wrapped(sentence, "- ") for sentence in paper.learnt)]
        for exhibit in paper.exhibits:
            if outcome := outcomes.get((paper.name, exhibit.name)):
                parts.append(_section(exhibit, outcome))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _wrapped(sentence: str, bullet: str = "") -> str:
    indent = " " * len(bullet)
    sentence = sentence.replace("*", "\\*")  # PROBE* and w*
    return fill(bullet + sentence, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "&#124;").replace("*", "\\*") for cell in cells) + " |"


def _table_of_tables(paper: Paper, outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    lines = ["| | content | ours (paper) | data | verdict | seconds |", "|---|---|---|---|---|---|"]
    for exhibit in paper.exhibits:
        outcome = outcomes.get((paper.name, exhibit.name))
        name = f"[`{exhibit.name}`](#{paper.name}-{exhibit.name})" if outcome else f"`{exhibit.name}`"
        if outcome:
            rest = [_main(exhibit, outcome), ", ".join(outcome.data), outcome.verdict, f"{outcome.seconds:.0f} on {outcome.ranks}"]
        else:
            rest = ["", "", "not run" if exhibit.make else f"cannot be computed: {exhibit.lacks}", ""]
        lines.append(_line([name, exhibit.title, *rest]))
    return "\n".join(lines)


def _main(exhibit: Exhibit, outcome: Outcome) -> str:
    """Return the number that represents the exhibit, with its row and column."""
    row, column = exhibit.main or ("", "")
    number = outcome.numbers.get(row, {}).get(column)
    return "" if number is None else f"{row}, {column}: {format_pair(number, outcome.published.get(row, {}).get(column))}"


def _section(exhibit: Exhibit, outcome: Outcome) -> str:
    rows = format_rows(outcome.numbers, outcome.published)
    lines = [f"### {outcome.paper} {outcome.exhibit}", "", _wrapped(f"{exhibit.title}: `{outcome.command}`"), ""]
    items = [f"{WORDS[holds]}: {text}" for text, holds in outcome.claims.items()]
    items += [*outcome.notes, *[f"Differs from the paper: {exhibit.lacks}"] * bool(exhibit.lacks)]
    lines += [_wrapped(item, "- ") for item in items]
    lines += ["", '<details markdown="1"><summary>Numbers</summary>', ""]
    lines += [_line(rows[0]), _line(["---"] * len(rows[0])), *(_line(row) for row in rows[1:]), "", "</details>"]
    return "\n".join(lines)
