"""`hpcml report`: the same page from any number of ranks, one sentence for a mistake; and the page in a browser."""

import json
import re

import numpy as np
import pytest
from support import hostile
from support.jobs import done, refused
from support.pages import run_report

from hpcml.log import named
from hpcml.reporting.page import LONGEST, page

FEW = [*hostile.NAMES, *(f"label {k}" for k in range(60))]


def documents(path):
    texts = {"sea": "the ship left the port with grain", "</script><b>": "the farmer sold wheat and corn"}
    with path.open("w") as out:
        for number in range(60):
            label = sorted(texts)[number % 2]
            split = "test" if number % 3 == 0 else "train"
            words = texts[label if number % 9 else sorted(texts)[1 - number % 2]].split()  # some are labelled wrongly
            text = " ".join(words[(number + k) % len(words)] for k in range(4))
            print(
                json.dumps(
                    {"id": f"<i>{number}", "text": text, "title": f"Title {number}</td>", "labels": [label], "split": split}
                ),
                file=out,
            )


def test_the_same_page_on_any_number_of_ranks(standing, tmp_path):
    documents(tmp_path / "docs.jsonl")
    data, runs = tmp_path / "docs.h5", [tmp_path / "one", tmp_path / "two"]
    done(standing(2, "convert", "jsonl", tmp_path / "docs.jsonl", "-o", data))
    done(standing(2, "train", "dual", data, "-o", runs[0]))
    done(standing(1, "train", "elastic-net", data, "-o", runs[1]))
    ended = json.loads((runs[0] / "environment.jsonl").read_text())
    assert len(ended["peak_mib"]) == 2 and min(ended["peak_mib"]) > 10 and "finished" in ended
    pages = []
    for n in (1, 3):
        done(standing(n, "report", *runs, "-o", tmp_path / f"{n}.html", "--titles", tmp_path / "docs.jsonl"))
        dates = rb"(evaluated</dt><dd>|<p>Made on )\d{4}-\d\d-\d\d"  # midnight may lie between the two
        made, n_dates = re.subn(dates, rb"\1", (tmp_path / f"{n}.html").read_bytes())
        assert n_dates == 4
        pages.append(made)
    assert pages[0] == pages[1]
    assert b">gap<" not in pages[0]
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "of other rows", "title": "none"}\n')
    warned = done(standing(2, "report", runs[0], "-o", tmp_path / "optimiser.html", "--optimiser", "--titles", other))
    assert (
        warned.stdout.count("warning:") + warned.stderr.count("warning:") == 1
        and "has none of the rows on the page" in warned.stdout + warned.stderr
    )
    assert ">gap<" in (tmp_path / "optimiser.html").read_text()
    assert b"<h2>Comparison" in pages[0] and b"<b>" not in pages[0].replace(b"<b>0", b"").replace(b"<b>1", b"")
    answers = []
    for n in (1, 3):
        said = ""
        for question in (
            ("--row", "<i>0", "--row", "<i>7"),
            ("--wrong", 3, "--titles", tmp_path / "docs.jsonl"),
            ("--wrong", 2, "--label", "sea"),
            ("--unlearnt",),
        ):
            answer = tmp_path / f"{n}.json"
            result = done(standing(n, "explain", runs[0] / "model.h5", data, *question, "--json", answer, "--force"))
            said += result.stdout + answer.read_text()
        answers.append(said)
    assert answers[0] == answers[1]
    assert "Title " in answers[0] and b"Title " in pages[0]
    model = runs[0] / "model.h5"
    for expected, command in {
        "named twice": ("report", runs[0], runs[0], "-o", tmp_path / "x.html"),
        "exists already": ("report", runs[0], "-o", tmp_path / "1.html"),
        "is also an input": ("report", runs[0], "--data", data, "-o", data, "--force"),
        "--row <i>0: has no effect with --unlearnt": ("explain", model, data, "--row", "<i>0", "--unlearnt"),
        "--wrong 3: needs the data": ("explain", model, "--wrong", 3),
        "line 1 is not a JSON object": ("report", runs[0], "-o", tmp_path / "x.html", "--titles", data),
        "no row with the id '9'": ("explain", model, data, "--row", 9),
    }.items():
        refused(standing(3, *command), expected)
    assert not (tmp_path / "x.html").exists()


class Opened:
    def __init__(self, browser, path, width=1280, **media):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **media)
        self.view, self.trouble = self.context.new_page(), []
        self.view.on("console", lambda message: self.trouble.append(message.text))
        self.view.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.view.on("request", lambda request: self._asked(request.url))
        self.view.goto(path.as_uri())
        self.view.wait_for_function("document.documentElement.dataset.ready == 'yes'", timeout=60_000)

    def _asked(self, url):
        if not url.startswith(("file:", "data:")):
            self.trouble.append(url)

    def cells(self, column):
        return self.view.eval_on_selector_all(
            f"table.labels tbody td:nth-child({column})", "cells => cells.map(c => c.textContent)"
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page([run_report(FEW)], hostile.NAMES[0], "2026-11-27"), encoding="utf-8")
    return path


def test_it_sorts_and_searches_and_shows_names_as_text(browser, written):
    with Opened(browser, written) as opened:
        view = opened.view
        assert view.title() == hostile.NAMES[0]
        heads = view.eval_on_selector_all("table.labels thead th", "cells => cells.map(c => c.textContent.trim())")
        report = run_report(FEW)
        values = np.sort(report.evaluation.values["average_precision"][:-1])
        assert heads[6] == "AP"
        for order, expected in (("ascending", values), ("descending", values[::-1])):
            view.click("table.labels thead th:nth-child(7)")
            view.wait_for_selector(f"table.labels thead th:nth-child(7)[aria-sort={order}]")
            found = [float(cell) for cell in opened.cells(7) if cell != "–"]
            np.testing.assert_allclose(found, expected[: len(found)], atol=0.00056)
            assert len(found) == (24 if order == "ascending" else 25)  # what is not defined comes first, or last
        for name in hostile.NAMES:
            shown = named(name, LONGEST)
            view.fill("input[type=search]", max(shown.split('"'), key=len)[:50])  # the search has a use of its own for quotes
            view.wait_for_timeout(50)
            assert shown in opened.cells(1), (name, opened.cells(1))
        view.fill("input[type=search]", "no such label")
        view.wait_for_selector("text=no matching label")
        assert opened.trouble == []
