"""Damaged inputs are refused or converted to a valid dataset, without tracebacks, hangs or unbounded memory.

`python -m launch.lab bench fuzz` does the same with thousands of inputs.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import damage

from hpcml import mpi
from hpcml.conversion.convert import convert
from hpcml.conversion.options import ConvertOptions
from hpcml.data.info import info
from hpcml.errors import BadRecordsError, HpcmlError
from hpcml.log import Log

TOP = Path(__file__).parents[2]
INPUTS = 60  # a multiple of the number of kinds


def fuzz(*options):
    command = [sys.executable, "-m", "launch.lab", "bench", "fuzz", *map(str, options)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=280, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, done.stderr
    assert done.returncode == any(line.get("outcome") == "defect" for line in lines), done.stderr
    return lines


@pytest.mark.more("files")
def test_damaged_inputs_are_refused_or_sound():
    lines = fuzz("--inputs", INPUTS, "--seed", 0)
    assert [line for line in lines if line.get("outcome") == "defect"] == []
    kinds = {line["kind"]: line for line in lines}
    assert kinds.keys() == {*damage.KINDS, "all"}
    assert kinds["all"]["inputs"] == INPUTS
    for kind, line in kinds.items():
        assert line["refused"] > 0, kind
        assert line["refused"] + line.get("sound", 0) == line["inputs"], kind


tokens = st.sampled_from([*damage.TOKENS["svmlight"], "1", "1:1", "2:0.5", "-1", "1,2", " ", "\n", "\n\n", "\t"])
svmlight = st.one_of(st.binary(max_size=40), st.lists(tokens, max_size=12).map(lambda words: " ".join(words).encode()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
documents = st.fixed_dictionaries(
    {"text": st.text(max_size=30) | values, "labels": st.lists(st.text(max_size=4), max_size=3) | values},
    optional={
        "id": st.text(max_size=4) | values,
        "title": values,
        "split": st.sampled_from(["train", "test", "all", ".."]) | values,
    },
)
lines_of_json = st.lists(documents.map(json.dumps).map(str.encode) | values.map(json.dumps).map(str.encode), max_size=4)
jsonl = st.one_of(st.binary(max_size=40), lines_of_json.map(b"\n".join))


def sound_or_refused(source, content, **options):
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, "in"), Path(folder, "out.h5")
        path.write_bytes(content)
        try:
            convert(mpi.self_comm(), source, [path], output, ConvertOptions(**options), False, Log(1))
        except HpcmlError as error:
            assert error.exit_code == 2
            assert len(str(error).splitlines()) == (min(len(error.args), 11) if isinstance(error, BadRecordsError) else 1)
            assert [file.name for file in Path(folder).iterdir()] == ["in"]
            return
        assert "every row is sound" in info(mpi.self_comm(), output, [1, 3])
        damage.check_dataset(output)


@settings(max_examples=30)
@given(content=svmlight, zero_based=st.booleans())
def test_any_svmlight_is_refused_or_sound(content, zero_based):
    sound_or_refused("svmlight", content, zero_based=zero_based)


@settings(max_examples=30)
@given(content=jsonl, pairs=st.booleans(), binary=st.booleans())
def test_any_json_lines_are_refused_or_sound(content, pairs, binary):
    sound_or_refused("jsonl", content, pairs=pairs, binary=binary)
