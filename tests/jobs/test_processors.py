"""The same bits on simulated processors: numba, NumPy, OpenBLAS and the C library use their code for other processors."""

import json
import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import make
from support.jobs import done

from hpcml.check.bits import compute_digest

TOP = Path(__file__).parents[2]
SIMULATED = SimpleNamespace(**runpy.run_path(str(TOP / "launch" / "lab" / "bench" / "processors.py")))
METHODS = ("dual", "elastic-net", "boosted-bayes", "psbml")  # they use exp, log and densities

MORE = pytest.mark.more("kernels")


@cache
def variables(name):
    processors = SIMULATED.made_up_processors()
    if name not in processors:
        pytest.skip(f"this architecture cannot simulate {name}")
    return processors[name]


@pytest.mark.parametrize("processor", ["native", pytest.param("nehalem", marks=MORE)])
def test_results_have_the_shipped_bits(mpirun, tmp_path, processor):
    command = ("check", tmp_path / "check", "--bits", "--json", tmp_path / "digests.json", "--methods", *METHODS)
    result = done(mpirun(1, *command, env=variables(processor), timeout=280))
    lines = result.stdout.splitlines()
    assert len(lines) >= 3 + len(METHODS) and {line.split()[0] for line in lines[:-1]} <= {"ok", "warning"}
    warnings = [line for line in lines[:-1] if line.startswith("warning")]
    assert all("computed by sklearn" in line for line in warnings), warnings
    by = json.loads((tmp_path / "digests.json").read_text())["made-on"]
    assert by["target"] == variables(processor).get("NUMBA_CPU_NAME", by["target"])


# The process is killed when its first checkpoint is written.
DIES = """
import os, signal
from hpcml.run import checkpoint
save = checkpoint.Checkpoints.save
def dies(*args, **named):
    save(*args, **named)
    os.kill(os.getpid(), signal.SIGKILL)
checkpoint.Checkpoints.save = dies
from hpcml.__main__ import main
main()
"""


@pytest.mark.parametrize("method", [("dual", "--loss", "logistic"), pytest.param(("elastic-net",), marks=MORE)])
def test_run_on_two_processors_has_the_bits_of_one(mpirun, tmp_path, method):
    data = make.dataset(tmp_path / "data.h5", *make.random_data(8, 120, 40, 3, density=0.3))
    command = ("train", *method, data, "--checkpoint-every", "0.001")
    done(mpirun(1, *command, "-o", tmp_path / "stays"))
    killed = mpirun(0, *command, "-o", tmp_path / "moves", program=("-c", DIES))
    assert killed.returncode == -9, killed.stderr
    stops = ("-o", tmp_path / "moves", "--resume", "--time-limit", "1e-9", "--verbose")
    moves = mpirun(1, *command, *stops, env=variables("nehalem"), timeout=280)
    assert moves.returncode in (0, 75), moves.stderr
    assert "resuming from state-" in moves.stderr
    assert moves.stderr.count("this run started on another type of processor") == 1 and "(compiled for nehalem)" in moves.stderr
    if moves.returncode:
        done(mpirun(1, *command, "-o", tmp_path / "moves", "--resume"))
    starts = [json.loads(line)["computed_by"] for line in (tmp_path / "moves" / "environment.jsonl").read_text().splitlines()]
    assert "nehalem" in {start["target"] for start in starts} and len({start["target"] for start in starts}) == 2
    assert compute_digest(tmp_path / "moves" / "model.h5") == compute_digest(tmp_path / "stays" / "model.h5")
