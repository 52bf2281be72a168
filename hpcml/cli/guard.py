"""The thread that ends the program after a signal, in time, with one sentence and an exit code.

A Python signal handler runs only between two steps of the main thread, which may be inside a library for long, and a library may
swallow or print the exception that it raises. Handlers therefore only record the signal (`StopSignals`), and a thread that the
signal wakes ends the process: at once, or, for a training run that checks the record, if no checkpoint is written in time.

The main thread may be importing a module from a disk that does not answer, and then holds the import lock. The thread must
therefore import nothing, and must not use an encoding that is not loaded yet.
"""

import os
import select
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from hpcml import signals
from hpcml.errors import EXIT_RESUMABLE
from hpcml.launcher import launched_rank, promised_ranks
from hpcml.signals import StopSignals

CHECKPOINT_SECONDS = 3.3  # time of a training run for its checkpoint after SIGTERM or SIGINT
RANK_SECONDS = 0.6  # rank 1 waits so long for the sentence of rank 0; each further rank waits 0.1 s longer
EXIT_SECONDS = 1.0  # time of a process that has begun to exit
RELAY_SECONDS = 0.2  # time of the launcher to relay stderr
POLL_SECONDS = 0.5  # between checks that the launcher is alive


def write_exit_code(code: int) -> None:
    """Write the exit code to the file of HPCML_EXIT_FILE, because launchers differ in the code that they return."""
    if path := os.environ.get("HPCML_EXIT_FILE"):
        with suppress(OSError):
            Path(path).write_bytes(f"{code}\n".encode())


def _find_resumable(run: Path) -> list[Path]:
    with suppress(OSError):
        if (run / "config.toml").exists():
            return [] if (run / "model.h5").exists() else [run]
        return [config.parent for config in run.glob("*/config.toml")]
    return []


class Guard:
    """Ends this process after a signal. A command that sets `run`, its run folder, or `waits` has time to end first."""

    def __init__(self, signals: StopSignals) -> None:
        self.signals = signals
        self.run: Path | None = None
        self.waits = self.connected = False
        self.rank, self._is_launched = launched_rank(), bool(promised_ranks())
        self._parent = os.getppid() if self._is_launched else None  # the launcher
        self._ends = threading.Lock()  # held by the thread that ends the process
        self._code = 0

    def start(self) -> Self:
        """Start the thread. Call from the main thread."""
        self._woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        if self.signals.seen:  # it arrived before the pipe existed
            os.write(wakes, bytes([self.signals.first]))
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def begin_exit(self, code: int) -> None:
        """Declare that the program exits with this code. Later signals are ignored."""
        self._ends.acquire()
        self._code = code
        self.signals.ignore()

    def _watch(self) -> None:
        number, late = 0, None
        while late is None or time.monotonic() < late:
            received, wait = 0, POLL_SECONDS if late is None else max(0.0, min(POLL_SECONDS, late - time.monotonic()))
            if select.select([self._woken], [], [], wait)[0]:
                received = os.read(self._woken, 1)[0]
            elif self._parent is not None and os.getppid() != self._parent:  # a rank without its launcher
                self._parent = None
                os.kill(os.getpid(), signal.SIGTERM)
            if received in self.signals.SIGNALS and late is None:
                ends_itself = self.waits or (self.run is not None and bool(_find_resumable(self.run)))
                number = received
                if not (ends_itself and received == signal.SIGUSR1 and not self.waits):  # SIGUSR1: no limit for the checkpoint
                    late = time.monotonic() + (CHECKPOINT_SECONDS if ends_itself else 0.0)
        self._end(number)

    def _end(self, number: int) -> None:
        if self.rank > 0:  # the launcher ends all ranks after rank 0, unless only this rank got the signal
            time.sleep(RANK_SECONDS + 0.1 * min(self.rank - 1, 8))
            # Send it to the other ranks of the launcher on this node, and let rank 0 end first.
            for status in Path("/proc").glob("[0-9]*/stat") if self._parent is not None else ():
                with suppress(OSError, IndexError, ValueError):
                    process, parent = int(status.parent.name), int(status.read_bytes().rpartition(b")")[2].split()[1])
                    if parent == os.getppid() and process != os.getpid():
                        os.kill(process, number)
            time.sleep(RANK_SECONDS if self._parent is not None else 0.0)
        if not self._ends.acquire(blocking=False):
            time.sleep(EXIT_SECONDS)
            os._exit(self._code)
        resumable = _find_resumable(self.run) if self.run is not None else []
        code, why = 128 + number, f"interrupted by {signal.Signals(number).name}"
        if resumable:
            code, where = EXIT_RESUMABLE, "from the beginning"
            with suppress(OSError, ValueError):  # no checkpoint
                newest = max(path.stat().st_mtime for folder in resumable for path in folder.glob("checkpoint/state-*.h5"))
                where = f"from the checkpoint of {max(0.0, time.time() - newest):.0f} s ago"
            why += f" and without a new checkpoint after {CHECKPOINT_SECONDS:g} s; continue with --resume, {where}"
        _print_error(f"hpcml: {why}\n")
        if not resumable:  # else the launcher may have sent the signal after a rank died, and returns that rank's code
            write_exit_code(code)
        if self._is_launched:
            time.sleep(RELAY_SECONDS)
        for action in reversed(tuple(signals.ACTIONS)):
            with suppress(Exception):
                action()
        os._exit(code)


def _print_error(text: str) -> None:
    """Write to stderr without Python's buffers, whose lock the main thread may hold."""
    with suppress(OSError):
        if os.isatty(2):
            text = f"\r\x1b[K\x1b[?25h{text}"  # the progress bar has hidden the cursor
        if select.select([], [2], [], 0.5)[1]:
            os.write(2, text.encode())
