"""Where datasets come from. A source reads this rank's part: (comm, inputs, options, like, log, scratch) -> Part."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from hpcml.conversion.docstrings import read_docstrings
from hpcml.conversion.jsonl import read_jsonl
from hpcml.conversion.part import Part
from hpcml.conversion.svmlight import read_svmlight
from hpcml.conversion.synthetic import GENERATORS, read_synthetic


class Source(NamedTuple):
    """How to read a source, how many inputs it takes, and whether its rows are made from text.

    An input is a file, or one of `names` if there are any: then the rows are made, `options.rows` of them.
    """

    read: Callable[..., Part]
    n_inputs: int
    is_text: bool
    names: Collection[str] = ()


SOURCES = {
    "docstrings": Source(read_docstrings, 0, True),
    "jsonl": Source(read_jsonl, 1, True),
    "svmlight": Source(read_svmlight, 1, False),
    "synthetic": Source(read_synthetic, 1, False, GENERATORS),
}
