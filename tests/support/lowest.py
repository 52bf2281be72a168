"""Print the lowest versions that pyproject.toml allows, as pins for pip: `python tests/support/lowest.py EXTRA,EXTRA`.

With `--admitted` before the extras: the allowed ranges, such as "numba>=0.62,<0.69".
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def requirements(extras, project=None):
    """Return the allowed versions of the requirements of these extras, by name: {"numba": ">=0.62,<0.69"}."""
    project = project or tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found = {}
    for text in [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]:
        name, own, rest = re.fullmatch(r"([\w.-]+)(?:\[([\w,]+)\])?\s*([^;]*?)\s*(?:;.*)?", text).groups()
        found |= requirements(own.split(","), project) if name == project["name"] else {name: rest}
    return found


def pins(extras):
    """Return the lowest version of each requirement, as a pin. Raises ValueError for a package without one."""
    found = []
    for name, admitted in requirements(extras).items():
        lowest = re.match(r">=([\d.]+)", admitted)
        if not lowest:
            raise ValueError(f"pyproject.toml gives no lowest version of {name}: {admitted!r}")
        found.append(f"{name}=={lowest[1]}")
    return found


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--admitted"]
    extras = words[0].split(",") if words else []
    found = [name + admitted for name, admitted in requirements(extras).items()] if "--admitted" in sys.argv else pins(extras)
    print("\n".join(found))
