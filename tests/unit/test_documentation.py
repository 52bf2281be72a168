"""The pages of the documentation: reader, length, navigation, and the tables that are generated from the code."""

import importlib.util
import re
from itertools import chain
from pathlib import Path

import pytest

from hpcml.cli.app import build
from hpcml.errors import EXIT_IN_USE, EXIT_RESUMABLE, EXIT_USER, DataError, HpcmlError, Interrupted, InUseError, Stopped
from hpcml.methods.registry import METHODS

DOCS = Path(__file__).parents[2] / "docs"
PAPERS = DOCS / "papers.md"  # generated tables of numbers
PAGES = sorted(DOCS.rglob("*.md"))
MAX_RECIPE_WORDS, MAX_WORDS = 600, 30_000


@pytest.fixture(scope="module")
def generated():
    spec = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name(page):
    return str(page.relative_to(DOCS))


def count_words(text):
    return len([word for word in text.split() if re.search(r"[^\W_]", word)])


def test_every_page_names_its_reader_and_length(generated):
    for page in PAGES:
        lines = generated.add_reader_line(page.read_text()).splitlines()
        assert lines[0].startswith("# ") and re.fullmatch(r"\*For .{10,}\. \d+ minutes? to read\.\*", lines[2]), page


def test_recipes_and_documentation_are_short():
    recipes = {name(page): count_words(page.read_text()) for page in DOCS.glob("do/*.md")}
    assert len(recipes) > 15
    assert not {page: words for page, words in recipes.items() if words > MAX_RECIPE_WORDS}
    assert sum(count_words(page.read_text()) for page in PAGES if page != PAPERS) <= MAX_WORDS


def test_every_page_is_in_the_navigation():
    listed = re.findall(r"^ *-.*?([\w/-]+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(map(name, PAGES))


def test_generated_pages_are_complete(generated):
    commands = generated.on_page_markdown((DOCS / "lookup" / "commands.md").read_text())
    assert all(f"\n## {command}\n" in commands for command in build() if not command.startswith("-"))
    assert "<!--" not in commands and "------" not in commands
    assert "| `--top` |" in commands and "| `--folds` | `5` |" in commands and all(f"`{method}`" in commands for method in METHODS)
    codes = generated.on_page_markdown((DOCS / "lookup" / "exit-codes.md").read_text())
    kinds = (HpcmlError, DataError, InUseError, Interrupted, Stopped)
    assert all(f"| `{kind.__name__}` | {kind.exit_code} |" in codes for kind in kinds)
    assert all(f"\n| {code} | " in codes for code in (EXIT_USER, EXIT_IN_USE, EXIT_RESUMABLE))
    functions = generated.on_page_markdown((DOCS / "lookup" / "api.md").read_text())
    assert "### hpcml.predict(model, data, output, …)\n" in functions and "| `split` | `'all'` |" in functions
    assert ".DualClassifier" in functions and "<!--" not in functions


TOP = Path(__file__).parents[2]
README, PAGES = TOP / "README.md", sorted((TOP / "docs").rglob("*.md"))
EVIDENCE = TOP / "docs" / "evidence"
LINK = re.compile(r"\]\(([\w./-]+\.md)#([\w-]+)\)")


def numbers(text):
    return {match.replace(",", "") for match in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def tables(text):
    return re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)


def sections(page):
    texts, parts = {}, re.split(r"^(#+) (.*)$", page, flags=re.MULTILINE)[1:]
    parts = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    for first, (level, heading, _) in enumerate(parts):
        end = next((n for n, part in enumerate(parts[first + 1 :], first + 1) if len(part[0]) <= len(level)), len(parts))
        anchor = re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        texts[anchor] = "".join(text for _, _, text in parts[first:end])
    return texts


def claims():
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
