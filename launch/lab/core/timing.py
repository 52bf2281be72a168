"""Run commands as subprocesses and measure them: seconds, CPU seconds, peak memory."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import hpcml
from hpcml.errors import ConfigError, Interrupted

GRACE = 10.0  # seconds that a subprocess has to end after SIGTERM, before it is killed


class Usage(NamedTuple):
    """Time and memory of a command. With mpirun `cpu_seconds` is the sum over ranks, `peak_mib` the largest process."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    output: str = ""  # its standard output


class CommandError(ConfigError):
    """A command failed. Has the exit code of the command."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def stopping() -> Iterator[None]:
    """Raise Interrupted in the body when SIGINT or SIGTERM arrives. Main thread only."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(f"stopped by {signal.Signals(number).name}")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def hpcml_command(words: Sequence[object], ranks: int = 1) -> list[str]:
    launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    return [*launcher, sys.executable, "-m", "hpcml", *map(str, words)]


def run_command(
    command: Sequence[object], *, timeout: float | None = None, log: Path | None = None, env: Mapping[str, str] | None = None
) -> Usage:
    """Run a command to its end and measure it. A stop signal or a timeout ends the command and its children, too.

    log: a file to which its messages (standard error) are appended. Raises CommandError if it fails or takes longer than
    `timeout` seconds, OSError if it cannot be started.
    """
    with tempfile.TemporaryFile() as output, log.open("ab+") if log else tempfile.TemporaryFile() as messages:
        start = messages.seek(0, os.SEEK_END)
        began = time.monotonic()
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=messages,
            env=None if env is None else {**os.environ, **env},
            start_new_session=True,
        )
        late = threading.Event()

        def end_late() -> None:
            late.set()
            end(process)

        timer = threading.Timer(timeout or 0, end_late)
        try:
            if timeout is not None:
                timer.start()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            timer.cancel()
            if process.returncode is None:
                end(process)
                process.wait()
        seconds = time.monotonic() - began
        if late.is_set() or process.returncode:
            messages.seek(start)
            raise CommandError(*failure(command, process.returncode, timeout if late.is_set() else None, messages.read()))
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Usage(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, text)


def run_hpcml(*words: object, ranks: int = 1, timeout: float | None = None, log: Path | None = None) -> Usage:
    return run_command(hpcml_command(words, ranks), timeout=timeout, log=log)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process of `run_command` and its group: SIGTERM, then SIGKILL after `GRACE` seconds."""
    deadline = time.monotonic() + GRACE
    try:
        os.kill(process.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, ChildProcessError):
        return


def failure(command: Sequence[object], code: int, timeout: float | None, messages: bytes) -> tuple[str, int]:
    """Return the message and the exit code for a failed command."""
    words = " ".join(map(str, command)).replace(f"{sys.executable} -m hpcml", "hpcml")
    if timeout is not None:
        return f"`{words}` took longer than {timeout:g} s", 1
    lines = [line for line in messages.decode(errors="replace").splitlines() if line.strip()]
    own = [line.removeprefix("hpcml: ") for line in lines if line.startswith("hpcml: ")]
    why = (own or lines or ["no message"])[-1]
    return f"`{words}` ended with exit code {code}: {why}", code if code > 0 else 1


def repeat(calls: Mapping[str, Callable[[], Usage]], times: int) -> dict[str, list[Usage]]:
    """Run each call `times` times in turn, every other round in reverse order, so that load on the machine affects all alike."""
    usages: dict[str, list[Usage]] = {name: [] for name in calls}
    for k in range(times):
        for name in list(calls)[:: 1 if k % 2 == 0 else -1]:
            usages[name].append(calls[name]())
    return usages


def least(usages: Sequence[Usage]) -> Usage:
    """Return the least seconds, CPU seconds and memory of repeated runs, each independently."""
    return Usage(*(min(usage[k] for usage in usages) for k in range(3)), output=usages[-1].output)


def print_json(**values: object) -> None:
    print(json.dumps(values | made_on()), flush=True)


def made_on() -> dict[str, str]:
    names = [line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.processor()
    versions = {"hpcml": hpcml.__version__, "python": platform.python_version()}
    return {"processor": processor, "architecture": platform.machine(), **versions}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
