"""A plugin on top of pytest-mpi, for what it lacks: a failing or hanging rank does not hang the suite, and `comm` to test with.

Under `mpirun -n N python -m pytest --with-mpi`, N > 1, every test ends with the ranks telling each other how it went. If any
failed, the failing ranks have printed their tracebacks and all abort. If a rank does not come within HPCML_TEST_DEADLINE seconds
(240), it is asked for its stack, and all abort. Only rank 0 shows progress. A test must skip on all ranks or on none, and must not
communicate inside `hypothesis.given` (a failing example is run again, on one rank only).
"""

import faulthandler
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from array import array
from pathlib import Path
from zlib import crc32

import pytest

PASSED, SKIPPED, FAILED = range(3)
GRACE = float(os.environ.get("HPCML_TEST_GRACE", "3"))  # seconds that the other ranks have to report after a failure
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS")

finished_folders = []  # of `mpi_tmp_path`: removed only when all ranks have left the test


def launched_size():
    names = [*SIZES, *(["SLURM_NTASKS"] if "SLURM_STEP_ID" in os.environ else [])]
    return max(int(os.environ.get(name, "1")) for name in names)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    if launched_size() > 1:
        config.pluginmanager.register(Rendezvous(config), "hpcml-rendezvous")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    result = yield
    rendezvous = item.config.pluginmanager.get_plugin("hpcml-rendezvous")
    if rendezvous is not None:
        rendezvous.after_test(item.nodeid)
    while finished_folders:
        shutil.rmtree(finished_folders.pop(), ignore_errors=True)
    return result


def pytest_collection_modifyitems(config, items):
    if launched_size() == 1:
        return
    seen, kept, left = set(), [], []
    for item in items:
        mine = getattr(item, "callspec", None) is not None and item.callspec.params.get("comm") == "self"
        (left if mine and item.function in seen else kept).append(item)
        if mine:
            seen.add(item.function)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


class Rendezvous:
    def __init__(self, config):
        from mpi4py import MPI

        self.MPI, self.comm = MPI, MPI.COMM_WORLD.Dup()
        self.rank, self.size = self.comm.rank, self.comm.size
        if self.size == 1:
            pytest.exit("the launcher started several ranks but MPI sees only one: use the mpirun of this environment", 2)
        self.deadline = float(os.environ.get("HPCML_TEST_DEADLINE", "240"))
        self.stderr = os.dup(2)  # pytest captures no output here yet
        self.stack = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        faulthandler.register(signal.SIGUSR2, file=self.stack, all_threads=False)
        self.processes = self.comm.allgather((socket.gethostname(), os.getpid(), self.stack.fileno()))
        self.outcome, self.trouble = PASSED, []
        if self.rank > 0:
            config.get_terminal_writer()._file = Path(os.devnull).open("w")  # noqa: SIM115 - lives as long as the process

    def say(self, text):
        sys.stdout.flush()
        os.write(self.stderr, "".join(f"[rank {self.rank}] {line}\n" for line in text.splitlines()).encode())

    def pytest_collectreport(self, report):
        self.note(report)

    def pytest_runtest_logreport(self, report):
        self.note(report)

    def note(self, report):
        if report.failed:
            captured = [f"--- {title}\n{text}" for title, text in report.sections if text]
            self.trouble += [f"FAILED {report.nodeid} ({report.when or 'collection'})", report.longreprtext, *captured]
            self.outcome = FAILED
        elif report.skipped and self.outcome == PASSED:
            self.outcome = SKIPPED

    def pytest_internalerror(self, excrepr):
        self.say(str(excrepr))
        self.abort("pytest itself failed here")

    def pytest_keyboard_interrupt(self, excinfo):
        if self.outcome != FAILED:  # else it is only pytest giving up after errors in the collection
            self.abort(f"interrupted: {excinfo.value!r}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session):
        if self.outcome == SKIPPED:  # a module or more; the tests left must be the same everywhere
            self.outcome = PASSED
        self.meet("the collection of tests", crc32("\n".join(item.nodeid for item in session.items).encode()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self):
        self.outcome, self.trouble = PASSED, []
        faulthandler.dump_traceback_later(5 * self.deadline, exit=True, file=self.stderr)  # if all ranks hang

    def after_test(self, nodeid):
        faulthandler.cancel_dump_traceback_later()
        self.meet(nodeid, crc32(nodeid.encode()))

    def meet(self, name, key):
        if self.trouble:
            self.say("\n".join(self.trouble))
        mine = array("q", [self.outcome, key])
        theirs = {rank: array("q", [0, 0]) for rank in range(self.size) if rank != self.rank}
        sent = [self.comm.Isend(mine, dest=rank) for rank in theirs]
        waiting = {rank: self.comm.Irecv(buffer, source=rank) for rank, buffer in theirs.items()}
        end, pause, hurry = time.monotonic() + self.deadline, 1e-5, False
        while waiting and time.monotonic() < end:
            waiting = {rank: request for rank, request in waiting.items() if not request.Test()}
            if not hurry and (self.outcome == FAILED or any(buffer[0] == FAILED for buffer in theirs.values())):
                end, hurry = min(end, time.monotonic() + GRACE), True
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        came = {self.rank: mine, **{rank: buffer for rank, buffer in theirs.items() if rank not in waiting}}
        failed, skipped = ([rank for rank in sorted(came) if came[rank][0] == what] for what in (FAILED, SKIPPED))
        problems = [f"failed on rank(s) {failed}"] if failed else []
        if waiting:
            problems.append(f"rank(s) {sorted(waiting)} did not arrive within {GRACE if hurry else self.deadline:g} s")
        elif skipped and len(skipped) + len(failed) < self.size:
            problems.append(f"skipped on rank(s) {skipped} only")
        if any(key != other[1] for other in came.values()):
            problems.append("the ranks do not run the same tests")
        if problems:
            if self.rank == min(came):
                self.ask_for_stacks(waiting)
                self.abort(f"{name}: {'; '.join(problems)}")
            time.sleep(2 * GRACE)  # the lowest rank that came ends us all
            self.abort(name)
        self.MPI.Request.Waitall(sent)

    def ask_for_stacks(self, ranks):
        for rank in sorted(ranks):
            host, pid, descriptor = self.processes[rank]
            if host == socket.gethostname():
                os.kill(pid, signal.SIGUSR2)
                time.sleep(0.2)
                lines = Path(f"/proc/{pid}/fd/{descriptor}").read_text().splitlines()
                own = [line for line in lines if "/_pytest/" not in line and "/pluggy/" not in line and "<frozen" not in line]
                self.say("\n".join([f"rank {rank} is here:", *own[1:]]))

    def abort(self, reason):
        self.say(f"tests of {self.size} ranks end here: {reason}")
        time.sleep(0.3)  # let mpirun pass on what the ranks printed
        self.MPI.COMM_WORLD.Abort(1)
        os._exit(1)  # MPICH's comes back until the launcher has killed us


@pytest.fixture(scope="session")
def _duplicate():
    from mpi4py import MPI

    return MPI.COMM_WORLD.Dup()


# Whether code keeps to the communicator that it is given shows on three ranks, which all tests have, where it is COMM_SELF on each:
# in one case of a test as in all. On one rank there is but one kind. COMM_WORLD would show no more than its duplicate does.
KINDS = {1: ["self"], 3: ["self", "duplicate"]}
# A mark for tests that run on hpcml's own communicator, too, which stands in for mpi4py's where there is no MPI library.
ALSO_SINGLE = pytest.mark.parametrize(
    "comm", ["self", "single"] if launched_size() == 1 else KINDS.get(launched_size(), ["duplicate"]), indirect=True
)


@pytest.fixture(params=KINDS.get(launched_size(), ["duplicate"]))
def comm(request):
    if request.param == "single":
        from hpcml.mpi import single

        return single.COMM_WORLD
    from mpi4py import MPI

    return MPI.COMM_SELF if request.param == "self" else request.getfixturevalue("_duplicate")


@pytest.fixture
def in_step(monkeypatch):
    from hpcml import mpi

    poll = mpi.RepeatedSum.poll

    def wait(sums, values):
        while (seen := poll(sums, values)) is None:
            pass
        return seen

    monkeypatch.setattr(mpi.RepeatedSum, "poll", wait)


@pytest.fixture
def mpi_tmp_path(request, mpi_tmp_path):
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.rank == 0:
        finished_folders.append(mpi_tmp_path)
    if "comm" not in request.fixturenames or request.getfixturevalue("comm").size == world.size:
        return mpi_tmp_path
    own = mpi_tmp_path / f"rank{world.rank}"
    own.mkdir()
    return own
