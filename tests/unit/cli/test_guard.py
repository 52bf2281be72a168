"""The guard ends a process after a signal, whatever its main thread does, with one sentence."""

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import contextlib, os, signal, sys, threading, time
from pathlib import Path
import hpcml.cli.guard
from hpcml.cli.guard import Guard
from hpcml.signals import cleanup_on_exit
from hpcml.signals import StopSignals
guard = Guard(StopSignals().__enter__()).start()
with cleanup_on_exit(lambda: Path({unfinished!r}).unlink()):
    {body}
    while True:  # a library that swallows every exception
        with contextlib.suppress(BaseException):
            time.sleep(60)
"""


def run(tmp_path, body, env=None):
    unfinished = tmp_path / "unfinished"
    unfinished.touch()
    command = [sys.executable, "-c", PROGRAM.format(unfinished=str(unfinished), body=body.replace("\n", "\n    "))]
    done = subprocess.run(command, env=os.environ | (env or {}), capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr, not unfinished.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_process_at_once(tmp_path, number):
    file = tmp_path / "code"
    code, stderr, removed = run(tmp_path, f"os.kill(os.getpid(), {number})", {"HPCML_EXIT_FILE": str(file)})
    assert (code, stderr, removed) == (128 + number, f"hpcml: interrupted by {number.name}\n", True)
    assert file.read_text() == f"{128 + number}\n"


def test_signal_before_the_guard_starts_counts(tmp_path):
    early = "signals = StopSignals().__enter__()\nos.kill(os.getpid(), signal.SIGTERM)\nGuard(signals).start()"
    assert run(tmp_path, early)[0] == 143


@pytest.mark.parametrize(("checkpoint", "reason"), [(True, "from the checkpoint of 0 s ago"), (False, "from the beginning")])
def test_run_without_a_checkpoint_in_time_ends_resumable(tmp_path, checkpoint, reason):
    folder = tmp_path / "run"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "config.toml").touch()
    newest = folder / "checkpoint" / "state-000001.h5"
    fresh = f"Path({str(newest)!r}).touch()" if checkpoint else "pass"
    body = f"hpcml.cli.guard.CHECKPOINT_SECONDS = 0.1\nguard.run = Path({str(folder)!r})\n{fresh}\n"
    body += "os.kill(os.getpid(), signal.SIGTERM)"
    code, stderr, _ = run(tmp_path, body)
    assert code == 75 and stderr.startswith("hpcml: interrupted by SIGTERM ") and stderr.endswith(f"{reason}\n")


def test_finished_run_is_not_resumable(tmp_path):
    for name in ("config.toml", "model.h5"):
        (tmp_path / name).touch()
    assert run(tmp_path, f"guard.run = Path({str(tmp_path)!r})\nos.kill(os.getpid(), signal.SIGTERM)")[0] == 143


def test_usr1_sets_no_limit_for_the_checkpoint(tmp_path):
    (tmp_path / "config.toml").touch()
    body = f"hpcml.cli.guard.CHECKPOINT_SECONDS = 0.1\nguard.run = Path({str(tmp_path)!r})\nos.kill(os.getpid(), signal.SIGUSR1)\n"
    body += "while not guard.signals.seen: pass\ntime.sleep(0.5)\nguard.begin_exit(75)\nos._exit(75)"
    assert run(tmp_path, body)[:2] == (75, "")


def test_signal_after_the_exit_has_begun_is_ignored(tmp_path):
    assert run(tmp_path, "guard.begin_exit(0)\nos.kill(os.getpid(), signal.SIGTERM)\nos._exit(0)") == (0, "", False)


def test_rank_without_its_launcher_ends(tmp_path):
    unfinished = tmp_path / "unfinished"
    unfinished.touch()
    inner = PROGRAM.format(unfinished=str(unfinished), body="print('READY', flush=True)")
    launcher = (  # it dies when its rank is ready
        f"import subprocess, sys, os, signal\np = subprocess.Popen([sys.executable, '-c', {inner!r}], stdout=subprocess.PIPE)\n"
        "p.stdout.readline()\nprint(p.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    command, env = [sys.executable, "-c", launcher], os.environ | {"PMI_RANK": "0", "PMI_SIZE": "2"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)  # until the rank closes stderr
    assert "hpcml: interrupted by SIGTERM" in done.stderr
    assert not unfinished.exists()


def test_signal_to_one_rank_ends_its_neighbour_too():
    rank = (
        "import time\nfrom hpcml.cli.guard import Guard\nfrom hpcml.signals import StopSignals\n"
        "Guard(StopSignals().__enter__()).start()\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    launcher = (
        "import ctypes, os, signal, subprocess, sys\n"
        "ctypes.CDLL(None).prctl(15, b'mpirun')\n"  # the name of this process
        f"command = [sys.executable, '-c', {rank!r}]\n"
        "start = lambda n: subprocess.Popen(command, stdout=-1, env=os.environ | {'PMI_RANK': str(n), 'PMI_SIZE': '2'})\n"
        "ranks = [start(0), start(1)]\n"
        "for each in ranks:\n    each.stdout.readline()\n"
        "ranks[1].send_signal(signal.SIGTERM)\n"
        "print(*[each.wait(30) for each in ranks])\n"
    )
    done = subprocess.run([sys.executable, "-c", launcher], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.split() == ["143", "143"]
    assert "hpcml: interrupted by SIGTERM" in done.stderr
