"""Numbers in README and pages are those of the tables of measurements that they refer to."""

import re
from itertools import chain
from pathlib import Path

TOP = Path(__file__).parents[2]
README, PAGES = TOP / "README.md", sorted((TOP / "docs").rglob("*.md"))
EVIDENCE = TOP / "docs" / "evidence"
LINK = re.compile(r"\]\(([\w./-]+\.md)#([\w-]+)\)")


def numbers(text):
    return {match.replace(",", "") for match in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def tables(text):
    return re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)


def sections(page):
    """The text below each heading of a page, by the heading's anchor, with the sections below it."""
    texts, parts = {}, re.split(r"^(#+) (.*)$", page, flags=re.MULTILINE)[1:]
    parts = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    for first, (level, heading, _) in enumerate(parts):
        end = next((n for n, part in enumerate(parts[first + 1 :], first + 1) if len(part[0]) <= len(level)), len(parts))
        anchor = re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        texts[anchor] = "".join(text for _, _, text in parts[first:end])
    return texts


def claims():
    """Yield page, page of evidence, anchor and sentence of each sentence that ends with a link to a section of evidence."""
    for page in PAGES:
        for paragraph in re.split(r"\n\n|\n- |\n\|", page.read_text()):
            flat = " ".join(paragraph.split())
            for link in LINK.finditer(flat):
                target = (page.parent / link[1]).resolve()
                if target.parent == EVIDENCE:
                    yield page.name, target.name, link[2], re.split(r"[.:] (?=[A-Z*`])", flat[: link.start()])[-1]


def test_figures_of_the_readme_are_in_a_table():
    known = [numbers(table) for table in chain.from_iterable(tables(page.read_text()) for page in PAGES)]
    (figures,) = (table for table in tables(README.read_text()) if table.startswith("| task | result | command |"))
    for line in figures.splitlines()[2:]:
        figure = numbers(line.strip("|").split(" | ")[1])
        assert figure and any(figure <= each for each in known), line


def test_fractions_of_claims_are_in_the_measurements():
    known, found = {page.name: sections(page.read_text()) for page in EVIDENCE.glob("*.md")}, list(claims())
    assert len(found) > 10
    for page, evidence, anchor, sentence in found:
        fractions = {number for number in numbers(sentence) if "." in number}
        assert fractions <= numbers(known[evidence][anchor]), (page, evidence, anchor, sentence)
