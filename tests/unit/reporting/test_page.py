"""The page of a report: nothing that the data name is more than text, and nothing comes from elsewhere."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from support import hostile
from support.pages import run_report

from hpcml.errors import ConfigError
from hpcml.log import named
from hpcml.reporting import page as page_module
from hpcml.reporting.page import page

DATE = "2026-11-27"
LABELS = [*hostile.NAMES, *(f"label {k}" for k in range(60))]


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.elements, self.scripts, self.text, self._inside = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self._inside != "style":
            self.text.append(data)


@pytest.fixture(scope="module")
def text():
    return page([run_report(LABELS), run_report(LABELS, 1, name=hostile.NAMES[0])], hostile.NAMES[0], DATE)


@pytest.fixture(scope="module")
def read(text):
    reader = Reader()
    reader.feed(text)
    return reader


def test_names_are_text_wherever_they_stand(read):
    kinds = [attrs.get("type") for attrs, _ in read.scripts]
    assert kinds == ["application/json", "application/json", "module"]
    assert "img" not in {tag for tag, _ in read.elements} and "i" not in {tag for tag, _ in read.elements}
    assert not [name for _, attrs in read.elements for name in attrs if name.startswith("on")]
    shown = "".join(read.text)
    for name in hostile.NAMES:
        assert named(name, page_module.LONGEST) in shown
    assert "\u202e" not in shown and "x" * 300 not in shown


def test_the_table_has_every_label_in_order(read):
    for place, (_, content) in enumerate(read.scripts[:2]):
        table, report = json.loads(content), run_report(LABELS, place)
        assert [row[0] for row in table["rows"]] == [named(name, page_module.LONGEST) for name in LABELS]
        columns = [name for name, _ in page_module.label_table(report)[0]]
        assert len(table["kinds"]) == len(columns)
        assert [row[columns.index("evaluated rows")] for row in table["rows"]] == report.evaluation.n_positive.tolist()
        found = [row[columns.index("AP")] for row in table["rows"]]
        assert found[-1] is None
        np.testing.assert_allclose(found[:-1], report.evaluation.values["average_precision"][:-1], atol=6e-5)


def test_only_the_script_of_the_page_may_run_and_nothing_is_fetched(text, read):
    (policy,) = (attrs["content"] for tag, attrs in read.elements if tag == "meta" and "http-equiv" in attrs)
    script = read.scripts[-1][1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    for tag, attrs in read.elements:
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert attrs.get(name, "#").startswith(("#", "data:")), (tag, attrs)
        assert tag not in ("link", "iframe", "object", "base")
    assert not re.search(r"@import|url\((?!data:|['\"]?data:|#)", text[: text.index("</style>")])


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(page_module, "NEEDS", ("jinja2", "no_such_package"))
    with pytest.raises(ConfigError, match=r"a report needs no_such_package; install .*hpcml\[report\]"):
        page([run_report(LABELS)], "one", DATE)


def test_of_very_many_labels_those_of_most_rows_are_in_the_table():
    report = run_report(LABELS, most=20)
    text = page([report], "", DATE)
    (of_table,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    rows = json.loads(of_table)["rows"]
    counts = report.n_trained_on
    cut = sorted(counts.tolist())[-20]
    assert len(rows) == 20 and min(row[1] for row in rows) == cut
    expected = [k for k in range(len(LABELS)) if counts[k] > cut]
    names = [named(str(LABELS[k]), 200) for k in expected]
    assert [row[0] for row in rows if row[1] > cut] == names
    assert f"The table has the 20 labels with most training rows, of {len(LABELS)}" in text
    assert "The table has the" not in page([run_report(LABELS)], "", DATE)


@pytest.mark.parametrize(("slope", "offset"), [(2.0, -1.5), (0.25, 3.0)])
def test_thresholds_and_scores_are_probabilities_where_the_model_has_them(slope, offset):
    report = run_report(LABELS, sigmoids=(slope, offset))
    columns, rows = page_module.label_table(report)
    at = columns.index(("threshold (probability)", "measure"))
    expected = 1 / (1 + np.exp(-slope * report.thresholds - offset))
    np.testing.assert_allclose([row[at] for row in rows], expected, rtol=1e-5)
    found = page_module.run_context(report, 0)["wrong"]["missed"]
    for line, wrong in zip(found, report.wrong["missed"], strict=True):
        assert float(line["score"].removeprefix("> ")) == pytest.approx(1 / (1 + np.exp(-slope * wrong.score - offset)), abs=5.1e-4)
        assert float(line["threshold"].removeprefix("> ")) == pytest.approx(expected[wrong.label], abs=5.1e-4)
    text = page([report], "one", DATE)
    assert "threshold of all labels (probability)" in text and "thresholds are scores" not in text
    rare = run_report(["a", "b"], sigmoids=(1.0, -9.0))  # sigmoid(-9) is 0.000123
    rare.thresholds = np.array([0.5, 9.0])
    first, second, *_ = page_module.run_context(rare, 0)["wrong"]["missed"]
    assert (first["score"], first["threshold"]) == ("0.00012", "0.0002")
    assert (second["score"], second["threshold"]) == ("< 0.001", "0.500")
