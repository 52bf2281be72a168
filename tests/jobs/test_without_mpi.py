"""Without an MPI library, hpcml works in one process, with the same bits."""

import json
import re
import sys
import urllib.request
from functools import partial

import pytest
from support.jobs import done, refused
from support.make import class_data, dataset, document_lines

NONE = "no MPI library: one process"
REMEDY = "pip install 'hpcml[mpi]'"


@pytest.fixture
def alone(mpirun, python_without_mpi):
    run = partial(mpirun, 0, python=python_without_mpi)
    if run(program=("-c", "import mpi4py.MPI")).returncode == 0:
        pytest.skip("mpi4py finds an MPI library outside of the environment")
    return run


def test_commands_have_the_bits_of_a_rank_with_mpi(alone, mpirun, python_without_mpi, standing, tmp_path):
    (tmp_path / "docs.jsonl").write_text(document_lines(1, 150, 60, 4))
    dataset(tmp_path / "classes.h5", *class_data(2, 90, 8, 2)[::2])
    for folder in ("with", "without"):
        (tmp_path / folder).mkdir()

    def at(folder, command):
        return [word.replace("@", str(tmp_path / folder)).replace("~", str(tmp_path)) for word in command.split()]

    for command in (
        "convert jsonl ~/docs.jsonl -o @/docs.h5 --test-share 0.3",
        "train dual ~/docs.h5 -o @/dual --loss logistic",
        "train elastic-net ~/docs.h5 -o @/elastic",
        "train mbw ~/docs.h5 -o @/mbw",
        "train psbml ~/classes.h5 -o @/asynchronous --grid 2x2 --cycles 3 --asynchronous",
        "train adaboost ~/classes.h5 -o @/adaboost",
        "tune ~/docs.h5 -o @/tuned --folds 3 --lambdas 1 --weights 1",
        "predict ~/without/dual/model.h5 ~/docs.h5 -o @/scores.csv",
        "evaluate ~/without/dual/model.h5 ~/docs.h5 --json @/judged.json",
        "duplicates ~/docs.h5 -o @/duplicates.csv",
    ):
        done(standing(1, *at("with", command)))
        assert "Traceback" not in done(alone(*at("without", command))).stderr
        if command.startswith("convert"):
            (tmp_path / "docs.h5").write_bytes((tmp_path / "without" / "docs.h5").read_bytes())
    written = [path for path in (tmp_path / "without").rglob("*") if path.suffix == ".h5" or path.parent.name == "without"]
    files = [path for path in written if path.is_file()]
    assert len(files) == 10
    for path in files:
        assert path.read_bytes() == (tmp_path / "with" / path.relative_to(tmp_path / "without")).read_bytes(), path
    assert json.loads((tmp_path / "without/dual/environment.jsonl").read_text())["mpi"] == NONE

    job = mpirun.start(0, "serve", tmp_path / "without" / "dual", "--port", 0, python=python_without_mpi)
    url = job.until(lambda: re.search(r"ready after .*: (http://\S+) ", job.output()[1]))[1]
    with urllib.request.urlopen(f"{url}v1/projects/hpcml/suggest", b"text=word0001&limit=1", timeout=30) as reply:
        assert len(json.load(reply)["results"]) == 1


def test_estimators_work(alone):
    program = """
import numpy as np, hpcml
X, y = np.eye(3)[np.arange(30) % 3], np.arange(30) % 3
print(hpcml.DualClassifier().fit(X, y).score(X, y))
try:
    hpcml.DualClassifier(comm="world").fit(X, y)
except TypeError as error:
    print(error)
"""
    assert done(alone(program=("-c", program))).stdout == "1.0\ncomm='world': expected an mpi4py communicator or None\n"


def test_reports_the_missing_library(alone, python_without_mpi, tmp_path):
    assert f"\n{NONE}\n" in done(alone("--version")).stdout
    printed = done(alone("check", tmp_path / "check", env={"OMP_NUM_THREADS": "1"})).stdout
    assert f"{NONE}, mpi4py" in printed and "\nok       training: " in printed
    # a library that cannot be loaded is named
    library = python_without_mpi.parents[1] / "lib" / "libmpi.so.12"
    library.write_text("none")
    try:
        assert f"{library}: file too short" in done(alone("check", tmp_path / "check")).stdout
    finally:
        library.unlink()


@pytest.mark.parametrize("n", [3])
def test_rejects_several_ranks(alone, mpirun, python_without_mpi, tmp_path, n):
    dataset(tmp_path / "data.h5", *class_data(2, 90, 8, 2)[::2])
    result = mpirun(n, "train", "dual", tmp_path / "data.h5", "-o", tmp_path / "run", python=python_without_mpi)
    assert REMEDY in refused(result, f"(PMI_SIZE={n})", alone=True)
    assert not (tmp_path / "run").exists()


def test_rejects_variables_of_several_ranks(alone, mpirun, python_without_mpi, tmp_path):
    for variables in ({"OMPI_COMM_WORLD_SIZE": "4"}, {"PMIX_RANK": "2"}, {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}):
        refused(alone("info", tmp_path / "none.h5", env=variables), REMEDY)
    dataset(tmp_path / "data.h5", *class_data(2, 90, 8, 2)[::2])
    assert "90 rows" in done(mpirun(1, "info", tmp_path / "data.h5", python=python_without_mpi)).stdout
    for variables in ({"OMPI_COMM_WORLD_SIZE": "1", "PMIX_RANK": "0"}, {"SLURM_NTASKS": "4"}):
        assert "90 rows" in done(alone("info", tmp_path / "data.h5", env=variables)).stdout


def test_rejects_a_launcher_that_sets_no_variables(alone, mpirun, python_without_mpi, tmp_path):
    launcher = tmp_path / "mpiexec"
    launcher.symlink_to(sys.executable)
    program = "import subprocess, sys; sys.exit(subprocess.run([sys.argv[1], '-m', 'hpcml', 'info', 'none.h5']).returncode)"
    result = mpirun(0, python_without_mpi, python=launcher, program=("-c", program))
    refused(result, "(mpiexec)", alone=True)
