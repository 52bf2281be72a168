"""The pages: for whom and how long, how many words, and what is made from the code."""

import importlib.util
import math
import re
from pathlib import Path

import pytest

from hpcml.cli.app import build
from hpcml.errors import EXIT_IN_USE, EXIT_RESUMABLE, EXIT_USER, DataError, HpcmlError, Interrupted, InUseError, Stopped
from hpcml.methods.registry import METHODS

DOCS = Path(__file__).parents[2] / "docs"
PAPERS = DOCS / "papers.md"  # made of outcomes: tables of numbers
PAGES = sorted(DOCS.rglob("*.md"))
IN_A_RECIPE, IN_ALL = 600, 30_000


@pytest.fixture(scope="module")
def made():
    """docs/generated.py."""
    spec = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name(page):
    return str(page.relative_to(DOCS))


def count(text):
    """Words: what stands between blanks and has a letter or a digit."""
    return len([word for word in re.split(r"\s+", text) if re.search(r"[^\W_]", word)])


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_says_for_whom_it_is_and_how_long_it_takes(page, made):
    text = page.read_text()
    shown = made.with_reader(text).splitlines()
    assert shown[0].startswith("# ") and shown[1] == ""
    (whom, minutes) = re.fullmatch(r"\*For (.{10,}[^.])\. (\d+) minutes? to read\.\*", shown[2]).groups()
    open_text = "".join(part.rpartition("</details>")[2] for part in text.split("<details"))
    assert whom in text and int(minutes) == math.ceil(count(open_text) / 200)


def test_a_recipe_is_short_and_the_whole_has_an_end():
    recipes = {name(page): count(page.read_text()) for page in DOCS.glob("do/*.md")}
    assert len(recipes) > 15
    assert not {page: words for page, words in recipes.items() if words > IN_A_RECIPE}
    assert sum(count(page.read_text()) for page in PAGES if page != PAPERS) <= IN_ALL


def test_every_page_has_a_place_in_the_navigation():
    placed = re.findall(r"^ *-.*?([\w/-]+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(placed) == sorted(map(name, PAGES))


def test_the_pages_of_what_the_code_knows_have_all_of_it(made):
    commands = made.on_page_markdown((DOCS / "lookup" / "commands.md").read_text())
    for command in build():
        if not command.startswith("-"):
            assert f"\n## {command}\n" in commands
    assert "<!--" not in commands and "------" not in commands
    assert "| `--top` |  | Number of labels to write for each row" in commands
    assert "| `--folds` | `5` |" in commands and all(f"`{method}`" in commands for method in METHODS)
    codes = made.on_page_markdown((DOCS / "lookup" / "exit-codes.md").read_text())
    kinds = (HpcmlError, DataError, InUseError, Interrupted, Stopped)
    assert all(f"| `{kind.__name__}` | {kind.exit_code} |" in codes for kind in kinds)
    assert all(f"\n| {code} | " in codes for code in (EXIT_USER, EXIT_IN_USE, EXIT_RESUMABLE))
    functions = made.on_page_markdown((DOCS / "lookup" / "api.md").read_text())
    assert "### hpcml.tune(data, output, …)\n" in functions and ".DualClassifier" in functions and "<!--" not in functions
    assert "### hpcml.predict(model, data, output, …)\n" in functions and "| `split` | `'all'` | Rows to score: " in functions
