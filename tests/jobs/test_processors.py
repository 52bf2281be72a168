"""The same bits on made-up processors: numba, NumPy, OpenBLAS and the C library take the code that they have for others."""

import json
import os
import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import make
from support.jobs import done

from hpcml.check.bits import digest

TOP = Path(__file__).parents[2]
MADE_UP = SimpleNamespace(**runpy.run_path(str(TOP / "launch" / "lab" / "bench" / "processors.py")))
METHODS = ("dual", "elastic-net", "boosted-bayes", "psbml")  # whose numbers come from exp, log and densities

MORE = pytest.mark.more("kernels")


@cache
def variables(name):
    """Return the environment variables of a made-up processor. Its kernels are kept in the same folder, under its name."""
    made_up = MADE_UP.made_up_processors()
    if name not in made_up:
        pytest.skip(f"no {name} can be made of this architecture")
    return made_up[name]


@pytest.mark.parametrize("processor", ["native", pytest.param("nehalem", marks=MORE)])
def test_what_methods_make_has_the_bits_that_ship(mpirun, tmp_path, processor):
    """The second has the switches of all libraries at once; bench/processors.py has them one by one. The first run compiles."""
    command = ("check", tmp_path / "tried", "--bits", "--json", tmp_path / "found.json", "--methods", *METHODS)
    result = done(mpirun(1, *command, env=variables(processor), timeout=280))
    lines = result.stdout.splitlines()
    assert len(lines) >= 3 + len(METHODS) and {line.split()[0] for line in lines[:-1]} <= {"ok", "warning"}
    warnings = [line for line in lines[:-1] if line.startswith("warning")]
    assert all("computed by sklearn" in line for line in warnings), warnings
    by = json.loads((tmp_path / "found.json").read_text())["made-on"]
    assert by["target"] == variables(processor).get("NUMBA_CPU_NAME", by["target"])


@pytest.mark.more("kernels")
@pytest.mark.parametrize(
    ("processor", "features", "libraries"),
    [
        ("libc-without-fma", {"FMA3", "X86_V3"}, {"libc"}),
        ("numpy-without-avx512", {"AVX512F", "X86_V4"}, {"numpy"}),
        ("blas-nehalem", {"AVX2", "X86_V3"}, {"blas"}),
    ],
)
def test_the_switches_bite(processor, features, libraries):
    """A library function of each gives another value somewhere: the processor is another one."""
    if not features & {*MADE_UP.numpy_features()}:
        pytest.skip(f"this processor has none of {', '.join(sorted(features))}")
    usual, changed = (MADE_UP.functions(dict(os.environ) | variables(name)) for name in ("native", processor))
    differing = {name.split()[0] for name in usual if usual[name] != changed[name]}
    if processor == "blas-nehalem" and not differing:
        pytest.skip("NumPy's library of linear algebra is not OpenBLAS, or has one kernel for all")
    assert differing == libraries


# The process dies as soon as a checkpoint has been written.
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
def test_a_run_that_moves_to_another_processor(mpirun, tmp_path, method):
    """Killed on one, resumed on the other and stopped, and resumed on the first: the bits of a run that stays."""
    data = make.dataset(tmp_path / "data.h5", *make.random_data(8, 120, 40, 3, density=0.3))
    command = ("train", *method, data, "--checkpoint-every", "0.001")
    done(mpirun(1, *command, "-o", tmp_path / "stays"))
    killed = mpirun(0, *command, "-o", tmp_path / "moves", program=("-c", DIES))
    assert killed.returncode == -9, killed.stderr
    moves = mpirun(
        1,
        *command,
        "-o",
        tmp_path / "moves",
        "--time-limit",
        "1e-9",
        "--resume",
        "--verbose",
        env=variables("nehalem"),
        timeout=280,
    )
    assert moves.returncode in (0, 75), moves.stderr
    assert "resuming from state-" in moves.stderr
    assert moves.stderr.count("this run started on another type of processor") == 1 and "(compiled for nehalem)" in moves.stderr
    if moves.returncode:
        done(mpirun(1, *command, "-o", tmp_path / "moves", "--resume"))
    starts = [json.loads(line)["computed_by"] for line in (tmp_path / "moves" / "environment.jsonl").read_text().splitlines()]
    assert "nehalem" in {start["target"] for start in starts} and len({start["target"] for start in starts}) == 2
    assert digest(tmp_path / "moves" / "model.h5") == digest(tmp_path / "stays" / "model.h5")
