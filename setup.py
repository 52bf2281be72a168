"""What pyproject.toml cannot say: the text of a package index's page, where links to other files of the project lead nowhere."""

import re
from pathlib import Path

from setuptools import setup

NOTE = "The pages that are named here, such as `docs/learn/first.md`, are in the source distribution."


def page_of_index(readme: str) -> str:
    """README.md without pictures, and with the paths of files instead of links to them."""
    text = re.sub(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n*|<!--.*?-->\n*", "", readme)
    text = re.sub(r"\[([^]]*)\]\((?!https?:|#)([^)#]*)[^)]*\)", lambda link: named(*link.groups()), text)
    title, _, rest = text.partition("\n\n")
    return f"{title}\n\n{NOTE}\n\n{rest}"


def named(words: str, path: str) -> str:
    """A link's words and the file that it leads to, once."""
    return f"`{path}`" if words.strip("`") == path else f"{words} (`{path}`)"


if __name__ == "__main__":
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    setup(long_description=page_of_index(readme), long_description_content_type="text/markdown")
