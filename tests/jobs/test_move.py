"""The page "Move a model" with real texts, without MPI and on ranks: Python, command and HTTP give identical scores."""

import itertools
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.document_commands import SHELLS, blocks

PAGE = Path(__file__).parents[2] / "docs" / "do" / "move.md"
N_TEXTS = 1500


def test_a_model_without_its_data_gives_identical_scores(python_without_mpi, tmp_path):
    source = Path(os.environ.get("HPCML_DATA", "")) / "debian_tags_en.jsonl.xz"
    if not source.is_file():
        pytest.skip("HPCML_DATA names no folder with debian_tags_en.jsonl.xz")
    with lzma.open(source, "rt", encoding="utf-8") as lines, (tmp_path / "docs.jsonl").open("w") as out:
        out.writelines(itertools.islice(lines, N_TEXTS))
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "hpcml").write_text(f'#!/bin/sh\nexec {python_without_mpi} -m hpcml "$@"\n')
    (commands / "hpcml").chmod(0o755)
    with_mpi = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    without = with_mpi | {"PATH": f"{commands}:{python_without_mpi.parent}:{os.environ['PATH']}"}
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        shell = SHELLS[block.language] if block.language == "bash" else [python_without_mpi, "-c"]
        environment = with_mpi if "mpirun" in block.code else without
        result = subprocess.run([*shell, block.code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
        assert result.returncode == 0, f"{block.code}\n{result.stdout}\n{result.stderr}"
    assert not (tmp_path / "training.h5").exists()
    tables = [(tmp_path / f"{name}.csv").read_text() for name in ("command", "ranks", "python", "http")]
    assert tables == tables[:1] * 4
    ids = {json.loads(line)["id"] for line in (tmp_path / "docs.jsonl").open()}
    lines = tables[0].splitlines()
    assert lines[0] == "id,label,probability" and {line.split(",")[0] for line in lines[1:]} == ids
