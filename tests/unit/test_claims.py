"""What messages, docstrings and pages claim, held to what they speak of: constants, other methods, the tables of measurements."""

import re
from itertools import chain
from pathlib import Path

import pytest

from hpcml import ElasticNetClassifier
from hpcml.methods.elastic_net.certifier import MAX_GAP
from hpcml.methods.elastic_net.options import ElasticNetOptions

TOP = Path(__file__).parents[2]
README, PAGES = TOP / "README.md", sorted((TOP / "docs").rglob("*.md"))
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
LINK = re.compile(r"\]\(([\w./-]+\.md)#([\w-]+)\)")
EVIDENCE = TOP / "docs" / "evidence"


def numbers(text):
    """The numbers of a text, without the commas of thousands."""
    return {found.replace(",", "") for found in NUMBER.findall(text)}


def tables(text):
    """The tables of a page."""
    return re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)


def sections(page):
    """The text below each heading of a page, by the heading's anchor; a section holds those below it."""
    found, parts = {}, re.split(r"^(#+) (.*)$", page, flags=re.MULTILINE)[1:]
    parts = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    for place, (level, heading, _) in enumerate(parts):
        below = next((n for n, part in enumerate(parts[place + 1 :], place + 1) if len(part[0]) <= len(level)), len(parts))
        anchor = re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        found[anchor] = "".join(text for _, _, text in parts[place:below])
    return found


def figures():
    """The rows of the README's table of figures: (what, figure, command)."""
    table = next(each for each in tables(README.read_text()) if each.startswith("| what | figure | command |"))
    return [tuple(cell.strip() for cell in line.strip("|\n").split(" | ")) for line in table.splitlines()[2:]]


def claims():
    """(page, page of evidence, anchor, sentence) of every sentence that ends with a link to a section of what was measured."""
    for page in PAGES:
        for paragraph in re.split(r"\n\n|\n- |\n\|", page.read_text()):
            flat = " ".join(paragraph.split())
            for link in LINK.finditer(flat):
                target = (page.parent / link[1]).resolve()
                if target.parent == EVIDENCE:
                    yield page.name, target.name, link[2], re.split(r"[.:] (?=[A-Z*`])", flat[: link.start()])[-1]


@pytest.mark.parametrize("row", figures(), ids=lambda row: row[0])
def test_figures_of_the_readme_are_in_one_table(row):
    wanted = numbers(row[1])
    assert wanted
    assert any(wanted <= numbers(table) for table in chain.from_iterable(tables(page.read_text()) for page in PAGES)), row


def test_sentences_say_what_the_measurements_they_name_say():
    known, found = {page.name: sections(page.read_text()) for page in EVIDENCE.glob("*.md")}, list(claims())
    assert len(found) > 10
    for page, evidence, anchor, sentence in found:
        fractions = {number for number in numbers(sentence) if "." in number}
        assert fractions <= numbers(known[evidence][anchor]), (page, evidence, anchor, sentence)


def test_elastic_net_says_its_own_defaults():
    text, page = ElasticNetClassifier.__doc__, (TOP / "docs" / "methods" / "elastic-net.md").read_text()
    (gap,) = re.findall(r"max_gap : float or None, default None\n.* Default: ([\d.e-]+)\.\n", text)
    assert float(gap) == MAX_GAP
    assert f"The defaults, {ElasticNetOptions.l1} and {ElasticNetOptions.lam}, " in page
    made = ElasticNetClassifier()
    assert (made.l1, made.lam) == (ElasticNetOptions.l1, ElasticNetOptions.lam)
