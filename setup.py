"""Parts of the build that pyproject.toml cannot describe: the version with the commit, and the text for a package index, where
links to other files of the project lead nowhere."""

import re
import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

NOTE = "The pages that are named here, such as `docs/learn/first.md`, are in the source distribution."
ROOT = Path(__file__).resolve().parent
VERSION = Path("hpcml", "version.py")


def page_of_index(readme: str) -> str:
    """README.md without pictures, and with the paths of files instead of links to them."""
    text = re.sub(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n*|<!--.*?-->\n*", "", readme)
    text = re.sub(r"\[([^]]*)\]\((?!https?:|#)([^)#]*)[^)]*\)", lambda link: named(*link.groups()), text)
    title, _, rest = text.partition("\n\n")
    return f"{title}\n\n{NOTE}\n\n{rest}"


def named(words: str, path: str) -> str:
    """A link's words and the file that it leads to, once."""
    return f"`{path}`" if words.strip("`") == path else f"{words} (`{path}`)"


def write_commit(folder: Path) -> None:
    """Write hpcml/version.py into a copy of the project, with the commit."""
    commit, copy = runpy.run_path(str(ROOT / VERSION))["read_commit"](ROOT), folder / VERSION
    copy.unlink()  # it may be a hard link to the project's own
    copy.write_text((ROOT / VERSION).read_text(encoding="utf-8").replace("$Format:%H$", commit), encoding="utf-8")


class BuildWithCommit(build_py):
    """Copies the package for a wheel; an editable installation has no copy."""

    def run(self) -> None:
        """Copy the package."""
        super().run()
        if not self.editable_mode:
            write_commit(Path(self.build_lib))


class SourceWithCommit(sdist):
    """Makes the source distribution."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the files."""
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir))


if __name__ == "__main__":
    setup(
        version=runpy.run_path(str(ROOT / VERSION))["version"](),
        long_description=page_of_index((ROOT / "README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
        cmdclass={"build_py": BuildWithCommit, "sdist": SourceWithCommit},
    )
