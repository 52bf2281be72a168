"""The outermost guard of the program: from its first line on, a signal ends it in time, with one sentence and an exit code.

A handler of Python's runs only between two steps of the main thread, which may be inside a library for long; and what it raises may
be swallowed there, or printed. So handlers only note the signal (`StopSignals`). A thread that the signal wakes ends the process:
at once, or, where a training run checks what was noted, if the run has not come to its checkpoint in time.

The main thread may be looking for a module on a disk that does not answer. It then has the lock of
all imports, so the thread must import nothing, nor name an encoding that is not loaded yet.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from hpcml import signals
from hpcml.errors import EXIT_RESUMABLE
from hpcml.launcher import launched_rank, promised_ranks
from hpcml.signals import StopSignals

PATIENCE = 3.3  # seconds that a training run has for its checkpoint after SIGTERM or SIGINT
TURN = 0.6  # seconds that the other ranks wait for rank 0 to speak, and a tenth more of a second for every rank below
LAST = 1.0  # seconds after which a rank that had begun to end by itself is ended
RELAY_SECONDS = 0.2  # for the launcher to pass on what was said
LOOK_SECONDS = 0.5  # between looks at whether the launcher lives


def write_exit_code(code: int) -> None:
    """Write the code to the file of HPCML_EXIT_FILE: launchers differ in what they make of it."""
    if path := os.environ.get("HPCML_EXIT_FILE"):
        with suppress(OSError):
            Path(path).write_bytes(f"{code}\n".encode())


def _begun(run: Path) -> list[Path]:
    """The run folders at or in `run` that can be resumed."""
    with suppress(OSError):
        if (run / "config.toml").exists():
            return [] if (run / "model.h5").exists() else [run]
        return [config.parent for config in run.glob("*/config.toml")]
    return []


class Guard:
    """End this process at a signal, by a thread; `run`: the output of a command that checks `signals`.

    With `waits` the command checks `signals`, too, and ends by itself, if it is not too late.
    """

    def __init__(self, signals: StopSignals) -> None:
        self.signals = signals
        self.run: Path | None = None
        self.waits = self.connected = False
        self.rank, self._is_launched = launched_rank(), bool(promised_ranks())
        self._parent = os.getppid() if self._is_launched else None  # the launcher
        self._ends = threading.Lock()  # whoever has it says how the process ends
        self._code = 0

    def start(self) -> Guard:
        """Begin to watch, in a thread; in the main thread only."""
        self._woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        if self.signals.seen:  # it came before there was a pipe
            os.write(wakes, bytes([self.signals.first]))
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def end_begins(self, code: int) -> None:
        """The program ends by itself now: unless the guard was quicker, signals do nothing."""
        self._ends.acquire()
        self._code = code
        self.signals.ignore()

    def _watch(self) -> None:
        """Wait for a signal, then end the process, if need be."""
        number, late = 0, None
        while late is None or time.monotonic() < late:
            came, wait = 0, LOOK_SECONDS if late is None else max(0.0, min(LOOK_SECONDS, late - time.monotonic()))
            if select.select([self._woken], [], [], wait)[0]:
                came = os.read(self._woken, 1)[0]
            elif self._parent is not None and os.getppid() != self._parent:  # a rank without its launcher
                self._parent = None
                os.kill(os.getpid(), signal.SIGTERM)
            if came in self.signals.SIGNALS and late is None:
                listens = self.waits or (self.run is not None and bool(_begun(self.run)))
                number = came
                if not (listens and came == signal.SIGUSR1 and not self.waits):  # which gives the time that a checkpoint takes
                    late = time.monotonic() + (PATIENCE if listens else 0.0)
        self._end(number)

    def _end(self, number: int) -> None:
        """Say why, remove what is unfinished, and end the process."""
        if self.rank > 0:  # rank 0 takes the others with it when it ends, unless the signal came only here
            time.sleep(TURN + 0.1 * min(self.rank - 1, 8))
            # Pass it on to the other children of the launcher here, and give rank 0 the time to end first.
            for status in Path("/proc").glob("[0-9]*/stat") if self._parent is not None else ():
                with suppress(OSError, IndexError, ValueError):
                    process, parent = int(status.parent.name), int(status.read_bytes().rpartition(b")")[2].split()[1])
                    if parent == os.getppid() and process != os.getpid():
                        os.kill(process, number)
            time.sleep(TURN if self._parent is not None else 0.0)
        if not self._ends.acquire(blocking=False):
            time.sleep(LAST)
            os._exit(self._code)
        begun = _begun(self.run) if self.run is not None else []
        code, why = 128 + number, f"interrupted by {signal.Signals(number).name}"
        if begun:
            code, where = EXIT_RESUMABLE, "from the beginning"
            with suppress(OSError, ValueError):  # no checkpoint
                newest = max(path.stat().st_mtime for folder in begun for path in folder.glob("checkpoint/state-*.h5"))
                where = f"from the checkpoint of {max(0.0, time.time() - newest):.0f} s ago"
            why += f" and without a new checkpoint after {PATIENCE:g} s; continue with --resume, {where}"
        _say(f"hpcml: {why}\n")
        if not begun:  # else a rank may have died, which made the launcher send the signal: its own code tells
            write_exit_code(code)
        if self._is_launched:
            time.sleep(RELAY_SECONDS)
        for action in reversed(tuple(signals.ACTIONS)):
            with suppress(Exception):
                action()
        os._exit(code)


def _say(text: str) -> None:
    """Write to stderr past Python's buffers, whose lock the main thread may hold."""
    with suppress(OSError):
        if os.isatty(2):
            text = f"\r\x1b[K\x1b[?25h{text}"  # the progress bar has hidden the cursor
        if select.select([], [2], [], 0.5)[1]:
            os.write(2, text.encode())
