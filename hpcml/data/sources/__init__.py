"""Where datasets come from. A source reads this rank's part: (comm, inputs, options, like, log) -> Part."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hpcml.data.part import Part
from hpcml.data.sources.docstrings import read_docstrings
from hpcml.data.sources.jsonl import read_jsonl
from hpcml.data.sources.svmlight import read_svmlight


class Source(NamedTuple):
    """How to read a source, how many files it takes, and whether its rows are made from text."""

    read: Callable[..., Part]
    n_inputs: int
    is_text: bool


SOURCES = {
    "docstrings": Source(read_docstrings, 0, True),
    "jsonl": Source(read_jsonl, 1, True),
    "svmlight": Source(read_svmlight, 1, False),
}
