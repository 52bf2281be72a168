"""How processes start, load their libraries, take their options, and end."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest
from support.jobs import done, refused
from support.make import dataset, random_data

import hpcml

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
RUN = f"{quote(sys.executable)} -m hpcml"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return dataset(tmp_path_factory.mktemp("start") / "data.h5", *random_data(7, 3000, 400, 40, density=0.05))


def shell(command, **variables):
    options = {"capture_output": True, "text": True, "timeout": 280, "check": False, "stdin": subprocess.DEVNULL}
    return subprocess.run(["bash", "-c", command], env=os.environ | variables, **options)


def test_command_line_imports_no_large_library():
    code = "import sys, hpcml.cli.app; print({'numpy', 'scipy', 'numba', 'mpi4py', 'sklearn', 'h5py'} & set(sys.modules))"
    assert done(shell(f'"{sys.executable}" -c "{code}"')).stdout == "set()\n"


def test_deferred_modules_are_imported_when_used():
    code = """
import sys
from hpcml.deferred import ABSENT, DEFERRED, defer
defer()
import sklearn.tree
print("sklearn.metrics._ranking" in sys.modules, "scipy.stats._stats_py" in sys.modules, *ABSENT & set(sys.modules))
import scipy.stats
from sklearn.metrics import roc_auc_score
print(scipy.stats.rankdata([3, 1, 2]).tolist(), roc_auc_score([0, 1], [0.1, 0.2]), type(scipy.stats).__name__)
for name in DEFERRED & set(sys.modules):
    sys.modules[name].__doc__, dir(sys.modules[name])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["False False", "[3.0, 1.0, 2.0] 1.0 module"]


def test_help_version_and_errors_are_printed_once(mpirun):
    assert done(mpirun(2, "--help")).stdout.count("Usage") == 1
    assert mpirun(2).stdout.count("Usage") == 1
    version = rf"{re.escape(hpcml.__version__)}\nPython 3\S+\n\S.* \S+\nfile formats: dataset \d+, model \d+, .*\n"
    assert re.fullmatch(version, done(mpirun(0, "--version")).stdout)
    refused(mpirun(3, "info", "no-such-file.h5"), "no-such-file.h5: ")


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path, closed):
    data, run = dataset(tmp_path / "data.h5", *random_data(7, 60, 20, 3)), quote(str(tmp_path / "run"))
    result = shell(f"{RUN} train probe {quote(str(data))} -o {run} --max-steps 3 {closed}")
    assert (result.returncode, "Traceback" in result.stdout) == (0, False)
    assert (tmp_path / "run" / "model.h5").exists()


def test_reader_of_the_output_that_ends_does_not_stop_the_run(data, tmp_path):
    run = quote(str(tmp_path / "run"))
    done(shell(f"{RUN} train dual {quote(str(data))} -o {run} 2>&1 | true; exit ${{PIPESTATUS[0]}}"))
    assert (tmp_path / "run" / "model.h5").exists()


@pytest.mark.parametrize(("prefix", "code"), [([], 75), (["nohup"], 0)])
def test_closed_terminal_stops_the_run_unless_nohup(data, tmp_path, prefix, code):
    options = ("-o", tmp_path / "run", "--labels-per-pass", "1", "--epsilon", "0.01")
    command = [*prefix, sys.executable, "-m", "hpcml", "train", "probe", data, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path) as job:
        for line in job.stdout:
            if line.startswith("training"):
                break
        job.send_signal(signal.SIGHUP)
        printed = job.stdout.read()
    assert job.returncode == code, printed
    assert "UCX" not in printed


def test_killed_ranks_leave_no_shared_memory(mpirun, data, tmp_path):
    job = mpirun.start(2, "train", "probe", data, "-o", tmp_path / "run", "--labels-per-pass", "1", "--epsilon", "0.01")
    job.until((tmp_path / "run" / "checkpoint" / "start.h5").exists)
    pids = job.rank_pids()
    names = {name for pid in pids for name in re.findall(r"/dev/shm/mpich_shm_\w+", Path(f"/proc/{pid}/maps").read_text())}
    assert names
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    job.wait()
    assert not any(Path(name).exists() for name in names)


def test_each_rank_has_one_thread_whatever_the_user_sets(mpirun):
    program = (  # loads scikit-learn's OpenMP after the start
        "import sys, threadpoolctl\nfrom hpcml.__main__ import main\nsys.argv = ['hpcml', 'evaluate', 'none.h5', 'none.h5']\n"
        "try:\n    main()\nfinally:\n    import numba, scipy.linalg, sklearn.utils\n"
        "    threads = {each['num_threads'] for each in threadpoolctl.threadpool_info()} | {numba.config.NUMBA_NUM_THREADS}\n"
        "    sys.stderr.write(f'THREADS {threads}\\n')"
    )
    result = mpirun(2, program=("-c", program), env=dict.fromkeys(THREADS, "2"))
    assert result.stderr.count("THREADS {1}") == 2, result.stderr


def test_config_file_sets_options_and_flags_override_it(mpirun, standing, tmp_path):
    config, data = tmp_path / "a.toml", dataset(tmp_path / "data.h5", *random_data(7, 300, 40, 6))
    config.write_text(f'method = "probe"\ndata = "{data}"\noutput = "{tmp_path / "run"}"\nlambda = "X/2"\nmin-positives = 3\n')
    done(mpirun(2, "train", "--config", config, "--epsilon", "0.3"))
    written = (tmp_path / "run" / "config.toml").read_text()
    assert 'lambda = "X/2"' in written and "epsilon = 0.3" in written
    config.write_text('method = "probe"\nmin-positive = 3\n')
    refused(standing(2, "train", "--config", config), "min-positives")
    done(standing(1, "train", f"--config={tmp_path / 'run' / 'config.toml'}", "-o", tmp_path / "again"))
    assert (tmp_path / "again" / "model.h5").read_bytes() == (tmp_path / "run" / "model.h5").read_bytes()


# The process writes every checkpoint and is killed when 20 labels are trained.
KILLED_AT_20_LABELS = """
import os, signal
from hpcml.methods.linear.run import LabelRun
from hpcml.run import checkpoint
checkpoint.MIN_SECONDS, checkpoint.COST_RATIO = 0.0, 0.0
keep = LabelRun.keep
def patched(run, finished):
    keep(run, finished)
    if run.n_done >= 20:
        os.kill(os.getpid(), signal.SIGKILL)
LabelRun.keep = patched
from hpcml.__main__ import main
main()
"""


def test_checkpoints_are_written_without_an_option(mpirun, standing, data, tmp_path):
    command = ("train", "dual", data, "--labels-per-pass", "4")
    killed = mpirun(0, *command, "-o", tmp_path / "run", program=("-c", KILLED_AT_20_LABELS))
    assert killed.returncode == -9, killed.stderr
    resumed = done(standing(1, *command, "-o", tmp_path / "run", "--resume"))
    labels = re.search(r"resuming from state-\d+\.h5: (\d+) of 40 labels done", resumed.stderr)
    assert labels and int(labels[1]) >= 12, resumed.stderr
    done(standing(1, *command, "-o", tmp_path / "undisturbed"))
    assert (tmp_path / "run" / "model.h5").read_bytes() == (tmp_path / "undisturbed" / "model.h5").read_bytes()


PRINTS_WHAT_IT_COMPILES = """
import sys, zlib
from numba.core.caching import IndexDataCacheFile as File
save = File.save
def patched(self, key, data):
    sys.stderr.write(f"COMPILED {self._index_name} {zlib.crc32(repr(key).encode())}\\n")
    save(self, key, data)
File.save = patched
from hpcml.__main__ import main
main()
"""


@pytest.mark.more("kernels")
def test_ranks_of_a_node_compile_each_kernel_once(mpirun, tmp_path):
    data = dataset(tmp_path / "data.h5", *random_data(7, 60, 20, 4))
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_OPT": "0"}  # the fastest way to compile
    command = ("train", "probe", data, "-o", tmp_path / "run", "--max-steps", "2")
    result = done(mpirun(2, *command, env=env, program=("-c", PRINTS_WHAT_IT_COMPILES)))
    compiled = [line for line in result.stderr.splitlines() if line.startswith("COMPILED")]
    assert len(set(compiled)) == len(compiled) > 10


@pytest.mark.parametrize("ranks", [1, 3])
def test_file_that_becomes_shorter_is_reported_once(mpirun, tmp_path, ranks):
    path = tmp_path / "data"
    path.write_bytes(bytes(1 << 16))
    program = (
        "import os, time\nimport numpy as np\nfrom hpcml import mpi\ncomm = mpi.start()\n"
        f"pages = np.memmap({str(path)!r}, np.uint8, 'r')\n"
        "comm.Barrier()\n"
        f"if comm.rank == 0: os.truncate({str(path)!r}, 0)\n"
        "comm.Barrier()\nprint(pages[-1])\ntime.sleep(300)"
    )
    refused(mpirun(ranks, program=("-c", program)), f"{path} became shorter while it was in use")


@pytest.mark.parametrize(("limit", "message"), [(300_000, "while starting (the libraries"), (550_000, "the libraries")])
def test_too_little_address_space_for_the_libraries_is_refused(data, tmp_path, limit, message):
    result = shell(f"ulimit -v {limit}; exec {RUN} train dual {data} -o {tmp_path / 'run'}", **dict.fromkeys(THREADS, "1"))
    assert message in refused(result, "MB of address space, more than is available; raise the limit (ulimit -v)", alone=True)


def test_library_that_is_not_loaded_in_time_ends_the_program():
    code = """
import ctypes
from hpcml import loading
loading.in_program, loading.SECONDS = True, 1
with loading.in_time():
    ctypes.PyDLL(None).sleep(600)  # keeps Python's lock, unlike the functions of CDLL
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=280, check=False).returncode == -signal.SIGALRM


def test_code_that_does_not_return_ends_all_ranks(mpirun):
    code = (
        "import ctypes\nfrom hpcml import mpi\ncomm = mpi.start()\n"
        "with mpi.time_limit(1, 'this is late'):\n"
        "    comm.rank == 1 and ctypes.PyDLL(None).sleep(600)\n"  # no Python handler interrupts it
        "comm.Barrier()"
    )
    refused(mpirun(2, program=("-c", code)), "hpcml: rank 1: this is late")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [("MemoryError()", 2, "rank 1 ran out of memory"), ("ZeroDivisionError()", 1, "rank 1 failed unexpectedly")],
)
def test_rank_that_aborts_prints_one_message_and_does_nothing_more(mpirun, error, code, message):
    program = (  # MPICH's abort returns, because it only asks the launcher to kill the ranks; here the launcher is paused
        "import os, subprocess, sys, time\nimport hpcml.mpi.start\nfrom hpcml import mpi\ncomm = mpi.start()\n"
        "if comm.rank == 1:\n"
        "    hpcml.mpi.start.RELAY_SECONDS = 2\n"
        "    launcher = os.getppid()\n"
        "    slow = f'sleep 1.5; kill -STOP {launcher}; sleep 2; kill -CONT {launcher}'\n"
        "    subprocess.Popen(['sh', '-c', slow], start_new_session=True)\n"
        f"    sys.excepthook(type({error}), {error}, None)\n"
        "sys.stderr.write(f'MORE {comm.rank}\\n')\n"
        "time.sleep(300)"
    )
    result = mpirun(2, program=("-c", program))
    assert result.returncode == code
    assert result.stderr.count("hpcml: ") == 1 and message in result.stderr
    assert "MORE 1" not in result.stderr


def test_exit_code_is_written_for_the_job_script(mpirun, tmp_path):
    file = tmp_path / "code"
    assert mpirun(2, "info", "no-such-file.h5", env={"HPCML_EXIT_FILE": str(file)}).returncode == 2
    assert file.read_text() == "2\n"
    done(mpirun(2, "--version", env={"HPCML_EXIT_FILE": str(file)}))
    assert file.read_text() == "0\n"
