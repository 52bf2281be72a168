"""JSON with a list that comes in parts."""

import json

import pytest

from hpcml.errors import DataError
from hpcml.files.atomic import ListInParts, write_json

CONTENT = {"name": "a\nb", "values": [1, 2.5, None], "rest": {}}
ENTRIES = [{"label": text, "nested": {"k": [n, "\n"]}} for n, text in enumerate(("ä", "line\nline", "half \udc80", "]}", ""))]


@pytest.mark.parametrize("size", [0, 1, len(ENTRIES)])
def test_a_list_in_parts_makes_the_bytes_of_the_whole(tmp_path, size):
    write_json(tmp_path / "parts.json", CONTENT | {"labels": ListInParts(iter(ENTRIES[:size]))})
    write_json(tmp_path / "whole.json", CONTENT | {"labels": ENTRIES[:size]})
    text = json.dumps(CONTENT | {"labels": ENTRIES[:size]}, indent=1, ensure_ascii=False) + "\n"
    assert (tmp_path / "parts.json").read_bytes() == text.encode(errors="backslashreplace")
    assert (tmp_path / "parts.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), DataError("No space left"), ValueError("No space left")])
def test_a_part_that_fails_leaves_nothing(tmp_path, error):
    def parts():
        yield from ENTRIES
        raise error

    with pytest.raises(ValueError if isinstance(error, ValueError) else DataError, match="No space left"):
        write_json(tmp_path / "out.json", CONTENT | {"labels": ListInParts(parts())})
    assert not list(tmp_path.iterdir())
