"""Constants of a machine that has much else to do."""

import itertools
from types import SimpleNamespace

import pytest

from hpcml import mpi
from hpcml.log import Log
from hpcml.methods.forecast import Machine
from hpcml.planning import measure

SELF = mpi.self_comm()


def clocks(monkeypatch, wall, processor):
    """A machine on which the clock goes so many seconds, and the processor's so many, from one look to the next."""
    walls, processors = itertools.count(0.0, wall), itertools.count(0.0, processor)
    fake = SimpleNamespace(perf_counter=lambda: next(walls), thread_time=lambda: next(processors))
    monkeypatch.setattr(measure, "time", fake)


def test_computing_is_measured_by_the_processor_and_the_clock_tells_of_others(monkeypatch):
    clocks(monkeypatch, wall=18.0, processor=1.5)
    watch = measure.Stopwatch()
    assert watch(lambda: None) == 1.5
    assert (watch.processor, watch.clock) == (1.5, 18.0)


@pytest.mark.parametrize(
    ("ratio", "said"), [(None, ""), (1.1, ""), (3.4, "the machine was busy: computing took 3.4 times as long")]
)
def test_busy_machine_is_told_and_older_files_are_read(ratio, said):
    machine = Machine({} if ratio is None else {"clock_per_processor": ratio}, {})
    warning = measure.busy_warning(machine)
    assert warning.startswith(said) and bool(warning) == bool(said)


def test_larger_sizes_are_left_out_where_they_would_take_too_long(monkeypatch, capsys):
    clocks(monkeypatch, wall=40.0, processor=1e-3)
    grid = ((400, 100), (400, 200), (400, 300))
    found = measure.measure_curves(SELF, SELF, 1, grid, 60.0, lambda call: (call(), 1.0)[1], Log(0))
    assert [at for at, _ in found["probe.value"]] == [100.0]
    assert "no constants for 200 columns: they would take too long now" in capsys.readouterr().err
    found = measure.measure_curves(SELF, SELF, 1, grid, 1e6, lambda call: (call(), 1.0)[1], Log(0))
    assert [at for at, _ in found["probe.value"]] == [100.0, 200.0, 300.0]
