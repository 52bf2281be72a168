"""The titles of documents, which the JSON lines have that datasets were made of."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.lines import LINE_MIB, open_plain

LONGEST = 120  # letters of a text that stands for a title


@mpi.collective
def titles_of(comm: mpi.Comm, path: Path | None, ids: Collection[str]) -> dict[str, str]:
    """Collective over `comm`. The titles of documents of these ids, from JSON lines.

    A document without a title has the beginning of its text, one without an id the number of its
    line. Nothing if `path` is None. Raises DataError for a file that is not JSON lines.
    """
    found: dict[str, str] = {}
    with mpi.agreed(comm, f"reading {path}"):
        if comm.rank == 0 and path is not None:
            found = _read(path, set(ids))
    shared: dict[str, str] = comm.bcast(found)
    return shared


def _read(path: Path, wanted: set[str]) -> dict[str, str]:
    """See `titles_of`. Local."""
    found: dict[str, str] = {}
    with open_plain(path) as file:
        number = 0
        while len(found) < len(wanted) and (line := file.readline(LINE_MIB << 20)):
            number += 1
            if line.isspace():
                continue
            try:
                document = json.loads(line)
                name, title, text = (document.get(key) for key in ("id", "title", "text"))
            except (ValueError, AttributeError, RecursionError):
                raise DataError(
                    f"{path}: line {number} is no JSON object; name the JSON lines that the data were made of"
                ) from None
            name = str(number) if name is None else str(name)
            if name in wanted:
                shown = title if isinstance(title, str) and title.strip() else text
                found.setdefault(name, _shortened(" ".join(str(shown or "").split())))
    return {name: title for name, title in found.items() if title}


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
