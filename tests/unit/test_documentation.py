"""The pages of the documentation: reader, length, navigation, and the tables that are generated from the code."""

import importlib.util
import re
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
    """The module docs/generated.py."""
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
