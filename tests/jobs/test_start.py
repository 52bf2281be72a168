"""How the program starts: what it imports, and what it refuses."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from shlex import quote

import numpy as np
import pytest
from support.jobs import done, refused
from support.make import dataset, model, random_data

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "scipy", "numba", "mpi4py", "sklearn", "h5py"}


def test_command_line_needs_nothing_heavy():
    code = f"import sys, hpcml.cli.app; print(*sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == []


def test_what_is_deferred_comes_when_it_is_used():
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
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.splitlines() == ["False False", "[3.0, 1.0, 2.0] 1.0 module"]


def test_help_is_shown_once(mpirun):
    result = done(mpirun(2, "--help"))
    assert result.stdout.count("Usage") == 1


def test_version(mpirun):
    import hpcml

    result = done(mpirun(0, "--version"))
    expected = rf"{re.escape(hpcml.__version__)}\nPython 3\S+\n\S.* \S+\nfile formats: dataset \d+, model \d+, .*\n"
    assert re.fullmatch(expected, result.stdout)


def test_launcher_of_another_mpi_is_refused(mpirun):
    result = mpirun(0, "info", "no-such-file.h5", env={"OMPI_COMM_WORLD_SIZE": "3"})
    refused(result, "hpcml: the launcher started 3 ranks (OMPI_COMM_WORLD_SIZE=3) but MPI sees only one", alone=True)


def test_wrong_option_is_one_sentence_on_any_number_of_ranks(mpirun):
    refused(mpirun(3, "info", "no-such-file.h5"), "no-such-file.h5: ")


def test_bare_command_shows_the_help_once(mpirun):
    assert mpirun(2).stdout.count("Usage") == 1


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere(tmp_path, closed):
    data = dataset(tmp_path / "data.h5", *random_data(7, 60, 20, 3))
    hpcml = f"{quote(sys.executable)} -m hpcml"
    source, run = quote(str(data)), quote(str(tmp_path / "run"))
    command = f"{hpcml} info {source} {closed} && {hpcml} train probe {source} -o {run} --max-steps 3 {closed}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, "Traceback" in result.stdout) == (0, False)
    assert (tmp_path / "run" / "model.h5").exists()


@pytest.mark.parametrize(("prefix", "code"), [([], 75), (["nohup"], 0)])
def test_a_terminal_that_goes_away_ends_what_is_not_under_nohup(tmp_path, prefix, code):
    data = dataset(tmp_path / "data.h5", *random_data(7, 3000, 400, 40, density=0.05))
    options = ("-o", tmp_path / "run", "--labels-per-pass", "1", "--epsilon", "0.01")
    command = [*prefix, sys.executable, "-m", "hpcml", "train", "probe", data, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path) as job:
        for line in job.stdout:
            if line.startswith("training"):
                break
        job.send_signal(signal.SIGHUP)
        said = job.stdout.read()
    assert job.returncode == code, said
    assert "UCX" not in said


def test_killed_ranks_leave_no_shared_memory(mpirun, tmp_path):
    data = dataset(tmp_path / "data.h5", *random_data(7, 3000, 400, 40, density=0.05))
    job = mpirun.start(2, "train", "probe", data, "-o", tmp_path / "run", "--labels-per-pass", "1", "--epsilon", "0.01")
    job.until(lambda: (tmp_path / "run" / "checkpoint" / "start.h5").exists())
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in job.rank_pids()]
    names = {name for text in maps for name in re.findall(r"/dev/shm/mpich_shm_\w+", text)}
    assert names
    for pid in job.rank_pids():
        os.kill(pid, signal.SIGKILL)
    job.wait(60)
    assert not any(Path(name).exists() for name in names)


def test_terminated_prediction_leaves_no_part_of_its_output(mpirun, tmp_path):
    rng = np.random.default_rng(0)
    data = dataset(tmp_path / "data.h5", np.ones((20000, 3)), np.ones((20000, 1)), label_names=["label0"])
    scorer = model(tmp_path / "model.h5", rng.normal(size=(300, 3)))
    job = mpirun.start(0, "predict", scorer, data, "-o", tmp_path / "out.csv")
    job.until(lambda: list(tmp_path.glob(".out.csv.part-*")))
    os.kill(job.process.pid, signal.SIGTERM)
    assert job.wait(30).returncode != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.h5", "model.h5"]


def test_each_rank_has_one_thread_whatever_the_user_has_set(mpirun):
    """Also of libraries that are loaded late: `program` loads scikit-learn's OpenMP after the start."""
    program = (
        "import sys, threadpoolctl\nfrom hpcml.__main__ import main\nsys.argv = ['hpcml', 'evaluate', 'none.h5', 'none.h5']\n"
        "try:\n    main()\nfinally:\n    import numba, scipy.linalg, sklearn.utils\n"
        "    threads = {each['num_threads'] for each in threadpoolctl.threadpool_info()} | {numba.config.NUMBA_NUM_THREADS}\n"
        "    print('THREADS', threads, file=sys.stderr, flush=True)"
    )
    result = mpirun(2, program=("-c", program), env=dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2"))
    assert result.stderr.count("THREADS {1}") == 2, result.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores")
def test_check_says_that_all_is_well_without_settings_of_threads(mpirun, tmp_path):
    result = done(mpirun(2, "check", tmp_path / "new", env=dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "8")))
    lines = result.stdout.splitlines()
    assert lines.pop() == "all is well: everything that training needs works"
    assert all(line.startswith("ok       ") for line in lines)


# What a rank compiles it saves, and nothing else.
NOTES_WHAT_IT_COMPILES = """
import os, sys
from numba.core.caching import IndexDataCacheFile as File
save = File.save
def noted(self, *args):
    print("COMPILED", os.environ["PMI_RANK"], self._index_name, file=sys.stderr, flush=True)
    save(self, *args)
File.save = noted
from hpcml.__main__ import main
main()
"""


@pytest.mark.more("kernels")
def test_one_rank_of_a_node_compiles_for_all(mpirun, tmp_path):
    data = dataset(tmp_path / "data.h5", *random_data(7, 60, 20, 4))
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_OPT": "0"}  # the fastest way to compile
    command = ("train", "probe", data, "-o", tmp_path / "run", "--max-steps", "2")
    result = done(mpirun(2, *command, env=env, program=("-c", NOTES_WHAT_IT_COMPILES)))
    ranks = [line.split()[1] for line in result.stderr.splitlines() if line.startswith("COMPILED")]
    assert len(ranks) > 10
    assert set(ranks) == {"0"}


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_that_find_a_file_shortened_together_say_it_once(mpirun, tmp_path, ranks):
    path = tmp_path / "data"
    path.write_bytes(bytes(1 << 16))
    program = (
        "import os, time\nimport numpy as np\nfrom hpcml import mpi\ncomm = mpi.start()\n"
        f"pages = np.memmap({str(path)!r}, np.uint8, 'r')\n"
        "comm.Barrier()\n"
        f"if comm.rank == 0: os.truncate({str(path)!r}, 0)\n"
        "comm.Barrier()\nprint(pages[-1])\ntime.sleep(30)"
    )
    result = mpirun(ranks, program=("-c", program), timeout=30)
    assert result.returncode == 2
    assert result.stderr.count("hpcml: ") == 1
    assert f"{path} became shorter while it was in use" in result.stderr


@pytest.mark.parametrize(("limit", "sentence"), [(300_000, "while starting (the libraries"), (550_000, "the libraries")])
def test_a_limit_under_which_libraries_would_load_for_ever_is_refused(tmp_path, limit, sentence):
    data = dataset(tmp_path / "data.h5", *random_data(0, 20, 5, 2))
    command = f"ulimit -v {limit}; exec timeout -s KILL 60 {sys.executable} -m hpcml train dual {data} -o {tmp_path / 'run'}"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    result = subprocess.run(["bash", "-c", command], env=os.environ | threads, capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    assert sentence in result.stderr
    assert "MB of address space, more than is available; raise the limit (ulimit -v)" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_libraries_that_are_not_loaded_in_time_end_the_program_though_it_has_pythons_lock():
    code = """
import ctypes
from hpcml import loading
loading.in_program, loading.SECONDS = True, 1
with loading.in_time():
    ctypes.PyDLL(None).sleep(60)  # which keeps the lock, unlike those of CDLL
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=50)
    assert result.returncode == -signal.SIGALRM


def test_code_that_never_comes_back_ends_all_ranks_with_a_sentence(mpirun):
    code = (
        "import ctypes\nfrom hpcml import mpi\ncomm = mpi.start()\n"
        "with mpi.time_limit(1, 'this is late'):\n"
        "    comm.rank == 1 and ctypes.PyDLL(None).sleep(60)\n"  # which no handler of Python's interrupts
        "comm.Barrier()"
    )
    refused(mpirun(2, program=("-c", code), timeout=30), "hpcml: rank 1: this is late")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [("MemoryError()", 2, "rank 1 ran out of memory"), ("ZeroDivisionError()", 1, "rank 1 failed unexpectedly")],
)
def test_rank_that_ends_all_says_one_thing_and_does_no_more(mpirun, error, code, sentence):
    program = (  # MPICH's abort comes back: it only asks the launcher to kill this rank, too. Here the launcher takes its time,
        # but only when it has passed on what was said
        "import os, subprocess, sys, time\nimport hpcml.mpi.start\nfrom hpcml import mpi\ncomm = mpi.start()\n"
        "if comm.rank == 1:\n"
        "    hpcml.mpi.start.RELAY_SECONDS = 2\n"
        "    launcher = os.getppid()\n"
        "    slow = f'sleep 1.5; kill -STOP {launcher}; sleep 2; kill -CONT {launcher}'\n"
        "    subprocess.Popen(['sh', '-c', slow], start_new_session=True)\n"
        f"    sys.excepthook(type({error}), {error}, None)\n"
        "print('MORE', comm.rank, file=sys.stderr, flush=True)\n"
        "time.sleep(30)"
    )
    result = mpirun(2, program=("-c", program), timeout=30)
    assert result.returncode == code
    assert result.stderr.count("hpcml: ") == 1
    assert sentence in result.stderr
    assert "MORE 1" not in result.stderr


def test_process_without_a_launcher_leaves_no_shared_memory(mpirun):
    job = mpirun.start(0, "info", "no-such-file.h5")
    assert job.wait(30).returncode == 2
    assert not Path(f"/dev/shm/mpich_shm_{job.process.pid:x}_0").exists()


def test_exit_code_is_left_for_the_job_script(mpirun, tmp_path):
    file = tmp_path / "code"
    assert mpirun(2, "info", "no-such-file.h5", env={"HPCML_EXIT_FILE": str(file)}).returncode == 2
    assert file.read_text() == "2\n"
    data = dataset(tmp_path / "data.h5", np.ones((3, 2)), np.ones((3, 1)))
    done(mpirun(2, "info", data, env={"HPCML_EXIT_FILE": str(file)}))
    assert file.read_text() == "0\n"


def test_standing_ranks_end_with_the_tests_that_started_them(mpirun, tmp_path):
    with subprocess.Popen(["sleep", "300"]) as tests:
        job = mpirun.start(2, tmp_path, tests.pid, program=(Path(__file__).with_name("standing.py"),))
        job.rank_pids()
        tests.kill()
    done(job.wait(60))


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_estimators_with_two_jobs_under_mpirun(n_ranks, tmp_path):
    """The workers of joblib inherit the launcher's environment, but not its socket."""
    program = tmp_path / "two_jobs.py"
    program.write_text(
        """
import numpy as np, hpcml
from sklearn.model_selection import cross_val_score
if __name__ == "__main__":
    y = np.arange(40) % 2
    X = np.eye(3)[np.arange(40) % 3] + y[:, None]
    model = hpcml.DualClassifier().fit(X, y)
    print(cross_val_score(model, X, y, cv=2, n_jobs=2).shape)
"""
    )
    call = ["mpirun", "-n", str(n_ranks), sys.executable, str(program)]
    result = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=240, check=False)
    assert result.returncode == 0, (result.returncode, result.stdout, result.stderr)  # the launcher prints on stdout
    assert result.stdout.splitlines() == ["(2,)"] * n_ranks
