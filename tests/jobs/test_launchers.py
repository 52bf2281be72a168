"""Commands and estimators in the environments of launchers, containers and clusters."""

import os
import subprocess
import sys

import numpy as np
import pytest
from support.jobs import done, refused
from support.make import dataset, random_data

SCHEDULER = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "4294967290", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1"}
PMIX = {"PMIX_NAMESPACE": "slurm.pmix.7.0", "PMIX_RANK": "0", "PMIX_SERVER_URI2": "x", "PMIX_SECURITY_MODE": "munge"}
ENDED = {
    "srun --pty bash with MpiDefault=pmix": PMIX | SCHEDULER | {"SLURM_STEP_ID": "0"},
    "interactive step of salloc": SCHEDULER,
    "mpirun -n 1 of MPICH": {"PMI_FD": "77", "PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALNRANKS": "1", "HYDI_CONTROL_FD": "78"},
    "rank without a size": {"PMI_RANK": "1"},
    "port of another launcher": {"PMI_PORT": "localhost:1", "PMI_ID": "1"},
    "mpirun -n 1 of Open MPI": {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"} | PMIX,
    "launcher of Hydra": {"HYDRA_LAUNCHER": "fork", "HYDRA_BOOTSTRAP": "slurm"},
}
ESTIMATOR = """
import sys, numpy as np, hpcml
X, y = np.eye(3)[np.arange(30) % 3], np.arange(30) % 3
sys.stdout.write(f"{hpcml.DualClassifier().fit(X, y).score(X, y)}\\n")  # one write: lines of two ranks stay whole
"""


@pytest.mark.more("disturbances", one_in=2)
@pytest.mark.parametrize("name", ENDED)
def test_ignores_variables_of_an_ended_launcher(mpirun, tmp_path, name):
    data = dataset(tmp_path / "data.h5", np.ones((3, 2)), np.ones((3, 1)))
    for n in (0, 2):
        assert "3 rows" in done(mpirun(n, "info", data, env=ENDED[name])).stdout
    if {"PMIX_NAMESPACE", "PMI_FD"} & set(ENDED[name]):  # MPICH would end the interpreter
        assert done(mpirun(0, program=("-c", ESTIMATOR), env=ENDED[name])).stdout == "1.0\n"


SEVERAL = {
    "PMI_SIZE": {"PMI_SIZE": "4", "PMI_RANK": "1", "PMI_FD": "77"},
    "PMIX_RANK": {"PMIX_NAMESPACE": "prterun-host-5@1", "PMIX_RANK": "2"},
    "OMPI_COMM_WORLD_SIZE": {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "2"},
    "SLURM_STEP_NUM_TASKS": {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4", "SLURM_PROCID": "1"},
}


@pytest.mark.parametrize("name", SEVERAL)
def test_rejects_variables_of_several_ranks(mpirun, name):
    error = refused(mpirun(0, "info", "no-such-file.h5", env=SEVERAL[name]), f"{name}={SEVERAL[name][name]}")
    assert f"`unset {name}`" in error


def test_second_command_of_a_script_under_mpirun(tmp_path):
    data = dataset(tmp_path / "data.h5", np.ones((3, 2)), np.ones((3, 1)))
    command = f"'{sys.executable}' -m hpcml info '{data}'"
    for n_ranks, n_printed in ((1, 2), (2, 1)):
        call = ["mpirun", "-n", str(n_ranks), "bash", "-c", f"{command} && {command}"]
        result = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
        assert result.stdout.count("data.h5: 3 rows") == n_printed
    assert result.returncode == 2 and "PMI_SIZE=2" in result.stderr and "Abort" not in result.stderr


@pytest.mark.parametrize("n_ranks", [0, 2])
def test_prints_a_job_script_once_and_without_mpi(mpirun, n_ranks):
    words = ("job", "train", "dual", "data.h5", "-o", "run", "--scheduler", "pbs")
    printed = done(mpirun(n_ranks, *words, env={"MPIR_CVAR_PMI_VERSION": "2"} if n_ranks == 0 else {})).stdout
    assert printed.startswith("#!/bin/bash\n") and printed.count("hpcml train dual") == 1


def test_command_started_by_a_rank_is_no_rank():
    program = "import os, sys, hpcml.mpi\nprint(os.system(f'{sys.executable} -m hpcml info no-such-file.h5') >> 8)"
    call = ["mpirun", "-n", "1", sys.executable, "-c", program]
    result = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done(result).stdout == "2\n"
    assert result.stderr.startswith("hpcml: no-such-file.h5: ") and result.stderr.count("\n") == 1


SHARED_MEMORY = """
mount -t tmpfs -o "$1" tmpfs /dev/shm || exit 99
[[ -z $2 ]] || head -c "$2" /dev/zero >/dev/shm/other
timeout 240 "${@:3}" </dev/null
code=$?
# joblib's resource tracker removes its files after the program has ended
for _ in {1..300}; do [[ $(ls /dev/shm) == *@(joblib|loky)* ]] || break; sleep 0.1; done
ls /dev/shm >&2
exit $code
"""


@pytest.fixture
def with_shared_memory():
    def run(options, *command, other=""):
        call = ["unshare", "--mount", "bash", "-c", SHARED_MEMORY, "bash", options, str(other), *map(str, command)]
        result = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False)
        if "unshare failed" in result.stderr or result.returncode == 99:
            pytest.skip(f"needs the right to mount a file system: {result.stderr.strip()}")
        return result

    return run


def ranks(n):
    return (*(("mpirun", "-n", str(n)) if n else ()), sys.executable)


@pytest.mark.parametrize(("n", "size"), [(0, "128k"), (1, "1m"), (2, "128k"), (2, "2m"), (3, "3m"), (3, "64m")])
def test_works_with_little_shared_memory(with_shared_memory, tmp_path, n, size):
    data = dataset(tmp_path / "data.h5", np.ones((3, 2)), np.ones((3, 1)))
    result = with_shared_memory(f"size={size}", *ranks(n), "-m", "hpcml", "info", data)
    assert "3 rows" in done(result).stdout
    assert result.stderr == ""  # neither messages nor files


def test_trains_with_little_shared_memory(with_shared_memory, tmp_path):
    data = dataset(tmp_path / "data.h5", *random_data(7, 3000, 400, 40, density=0.05))
    models = []
    for n, size in ((0, "1g"), (3, "128k")):
        train = ("-m", "hpcml", "train", "dual", data, "-o", tmp_path / size)
        assert "shm" not in done(with_shared_memory(f"size={size}", *ranks(n), *train)).stderr
        models.append((tmp_path / size / "model.h5").read_bytes())
    assert models[0] == models[1]


MISSING = {"read-only": ("ro", ""), "too small": ("size=16k", ""), "full": ("size=8m", 8 << 20)}


@pytest.mark.parametrize(("n", "how"), [(0, "read-only"), (2, "read-only"), (3, "too small"), (0, "full"), (2, "full")])
def test_rejects_missing_shared_memory_in_one_sentence(with_shared_memory, n, how):
    options, other = MISSING[how]
    result = with_shared_memory(options, *ranks(n), "-m", "hpcml", "info", "no-such-file.h5", other=other)
    error, _, files = result.stderr.partition("\n")
    assert (result.returncode, files) == (2, "other\n" if other else "")
    assert error.startswith("hpcml: /dev/shm ") and "docker run" in error


def test_estimator_raises_without_shared_memory(with_shared_memory):
    program = "import hpcml\ntry:\n    hpcml.DualClassifier\nexcept hpcml.errors.ConfigError as error:\n    print(error)"
    result = with_shared_memory("ro", sys.executable, "-c", program)
    assert done(result).stdout.startswith("/dev/shm ")


@pytest.mark.parametrize("n", [0, 2])
def test_estimators_leave_no_shared_memory(with_shared_memory, n):
    program = (
        ESTIMATOR + "from sklearn.model_selection import cross_val_score as c\nc(hpcml.DualClassifier(), X, y, cv=2, n_jobs=2)"
    )
    result = with_shared_memory("size=64m", *ranks(n), "-c", program)
    assert done(result).stdout.split() == ["1.0"] * max(n, 1)
    assert result.stderr == ""


def test_killed_estimator_leaves_no_shared_memory(with_shared_memory):
    program = ESTIMATOR + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    result = with_shared_memory("size=64m", *ranks(2), "-c", program)
    assert result.returncode not in (0, 2)
    assert "mpich_shm" not in result.stderr


@pytest.mark.parametrize("n", [0, 2])
def test_rejects_numba_without_compilation(mpirun, tmp_path, n):
    data = dataset(tmp_path / "data.h5", *random_data(1, 40, 12, 2, 0.4))
    result = mpirun(n, "train", "dual", data, "-o", tmp_path / "run", env={"NUMBA_DISABLE_JIT": "1"})
    refused(result, "NUMBA_DISABLE_JIT", alone=True)
    assert not (tmp_path / "run").exists()


def test_unknown_failure_of_mpi_has_exit_code_2(mpirun):
    result = mpirun(0, "info", "no-such-file.h5", env={"MPIR_CVAR_PMI_VERSION": "2"})
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith("hpcml: ")


def test_rejects_a_library_that_is_no_mpi(mpirun, tmp_path):
    library = tmp_path / "libmpi.so"
    library.write_text("none")
    for arguments in (("info", "no-such-file.h5"), ("--version",)):
        refused(mpirun(0, *arguments, env={"MPI4PY_LIBMPI": str(library)}), f"MPI4PY_LIBMPI={library}: ", alone=True)


def test_file_system_without_locks(tmp_path):
    data = dataset(tmp_path / "data.h5", np.ones((3, 2)), np.ones((3, 1)))
    source, library = tmp_path / "none.c", tmp_path / "none.so"
    source.write_text("#include <errno.h>\nint flock(int file, int how) { errno = ENOSYS; return -1; }\n")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True, timeout=60)
    except OSError as error:
        pytest.skip(f"needs a C compiler: {error}")
    command = [sys.executable, "-m", "hpcml", "info", str(data)]
    for setting, code in (("TRUE", 2), ("BEST_EFFORT", 0), ("", 0)):
        environment = os.environ | {"LD_PRELOAD": str(library), "HDF5_USE_FILE_LOCKING": setting}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == code, (setting, result.stderr)
        assert not code or (result.stderr.startswith(f"hpcml: {data}: ") and "HDF5_USE_FILE_LOCKING=FALSE" in result.stderr)
