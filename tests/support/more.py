"""A plugin: tests marked `more("PART")` run only if HPCML_PARTS names that part (see support/parts.py).

With `more("PART", one_in=3)`, one of three cases always runs: those whose parameter indices add up to `keep` (default: 0) modulo 3.
`of` names the parameters (default: all but `comm`). Without HPCML_PARTS, tests run if they are named one by one
(`tests/jobs/test_fuzz.py::test_…`). The number of skipped tests is added to the file HPCML_LEFT_OUT.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from support.parts import PARTS

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")


def pytest_configure(config):
    config.addinivalue_line("markers", f"more(part): runs only when HPCML_PARTS names the part: {', '.join(PARTS)}")


def asked_for(config):
    if "HPCML_PARTS" in os.environ:
        return {*os.environ["HPCML_PARTS"].split()}
    return {*PARTS} if any("::" in name for name in config.args) else set()


def stays(item, mark):
    if "one_in" not in mark.kwargs:
        return False
    indices = item.callspec.indices
    number = sum(indices[name] for name in mark.kwargs.get("of", indices.keys() - {"comm"}))
    return number % mark.kwargs["one_in"] == mark.kwargs.get("keep", 0)


@pytest.hookimpl(trylast=True)  # of those that -k and -m have left
def pytest_collection_modifyitems(config, items):
    """Deselect the tests of other parts; one of several equal processes counts them."""
    asked, kept, left, counts = asked_for(config), [], [], Counter()
    for item in items:
        marks = list(item.iter_markers("more"))
        parts = [mark.args[0] for mark in marks]
        if unknown := {*parts} - PARTS.keys():
            raise pytest.UsageError(f"{item.nodeid}: more({min(unknown)!r}): known parts: {', '.join(PARTS)}")
        if not parts or asked.intersection(parts) or any(stays(item, mark) for mark in marks):
            kept.append(item)
        else:
            left.append(item)
            counts[parts[0]] += 1
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0" and all(os.environ.get(name, "0") == "0" for name in RANKS)
    if counts and first and "HPCML_LEFT_OUT" in os.environ:
        with Path(os.environ["HPCML_LEFT_OUT"]).open("a", encoding="utf-8") as out:
            out.write("".join(f"{part} {number}\n" for part, number in counts.items()))
