import csv

import pytest
from support.make import dataset, random_data
from support.training import train

from hpcml.run import profile as module
from hpcml.run.profile import Profile


def test_each_second_counts_once_for_the_innermost_phase(monkeypatch):
    now = 10.0
    monkeypatch.setattr(module.time, "perf_counter", lambda: now)
    profile = Profile()
    now = 11.0
    with profile("load"):
        now = 13.0
        with pytest.raises(OSError, match="gone"), profile("warnings"):
            now = 17.0
            raise OSError("gone")
        now = 25.0
    now = 41.0
    assert profile.read() == {"start": 0.0, "other": 17.0, "load": 10.0, "warnings": 4.0, "total": 31.0}


def test_a_run_accounts_for_its_seconds_and_for_those_of_each_label(tmp_path):
    data = dataset(tmp_path / "data.h5", *random_data(3, 200, 60, 40, density=0.1))
    report = train("dual", None, data, tmp_path / "run", profile=True)
    (phases,) = report.profile
    assert {"load", "warnings", "compute", "finish", "write"} <= phases.keys()
    assert phases["total"] >= report.seconds
    with (tmp_path / "run" / "history.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    steps = {line["label"]: int(line["step"]) for line in lines}
    costs = [float(line["cpu_seconds"]) for line in lines if int(line["step"]) == steps[line["label"]]]
    assert len(costs) == len(steps) == sum(line["cpu_seconds"] != "" for line in lines)
    assert min(costs) >= 0 and 0 < sum(costs) <= report.cpu_seconds + 1e-6 * len(costs)
