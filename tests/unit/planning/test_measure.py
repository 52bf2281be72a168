"""Constants of a machine that has much else to do."""

import itertools
from types import SimpleNamespace

import pytest

from hpcml import mpi
from hpcml.log import Log
from hpcml.methods.forecast import Machine
from hpcml.planning import measure, start

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


def test_start_is_the_least_of_several(monkeypatch, tmp_path):
    seconds = iter([0.0, 18.0, 18.0, 19.75, 19.75, 25.0])
    monkeypatch.setattr(start, "_of_children", lambda: next(seconds))
    assert start.start_seconds(tmp_path, 3) == 1.75
    assert not list(tmp_path.iterdir())


def test_start_where_no_program_can_be_started(monkeypatch, tmp_path):
    monkeypatch.setattr(start.sys, "executable", str(tmp_path / "none"))
    assert start.start_seconds(tmp_path, 1) is None
    assert measure.measure_start(SELF, tmp_path, 1) > 0


def test_program_started_alone_is_no_rank(monkeypatch):
    for name in ("PMI_RANK", "SLURM_PROCID", "HPCML_EXIT_FILE", "HPCML_OUTPUTS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HPCML_DATA", "here")
    found = mpi.environment_alone()
    assert found["HPCML_DATA"] == "here" and not {"PMI_RANK", "SLURM_PROCID", "HPCML_EXIT_FILE", "HPCML_OUTPUTS"} & found.keys()
