"""JSON whose last list comes in parts."""

import json
from itertools import pairwise

import pytest

from hpcml.errors import DataError
from hpcml.files.atomic import write_json, write_json_list

CONTENT = {"name": "a\nb", "values": [1, 2.5, None], "rest": {}}
ENTRIES = [{"label": text, "nested": {"k": [n, "\n"]}} for n, text in enumerate(("ä", "line\nline", "half \udc80", "]}", ""))]


@pytest.mark.parametrize("cuts", [(), (5,), (2, 5), (0, 1, 1, 4, 5)])
def test_parts_make_the_bytes_of_the_whole(tmp_path, cuts):
    bounds = [0, *cuts]
    parts = (ENTRIES[begin:end] for begin, end in pairwise(bounds))
    write_json_list(tmp_path / "parts.json", CONTENT, "labels", parts)
    write_json(tmp_path / "whole.json", CONTENT | {"labels": ENTRIES[: bounds[-1]]})
    assert (tmp_path / "parts.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert len(json.loads((tmp_path / "parts.json").read_text())["labels"]) == bounds[-1]


def test_a_part_that_fails_leaves_nothing(tmp_path):
    def parts():
        yield ENTRIES
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="No space left"):
        write_json_list(tmp_path / "out.json", CONTENT, "labels", parts())
    assert not list(tmp_path.iterdir())
