"""What `launch/test.sh` says before it begins."""

from pathlib import Path

import pytest
from support import how_long

from hpcml.kernels.rows import compact


@pytest.mark.parametrize(
    ("n_cores", "seconds", "compiles", "expected"),
    [(2, 0.5, False, 19), (1, 0.5, False, 37), (2, 1.0, False, 37), (2, 0.5, True, 21), (64, 0.5, False, 10), (4, 0.25, False, 5)],
)
def test_time_follows_cores_and_speed(n_cores, seconds, compiles, expected):
    assert how_long.minutes(n_cores, seconds, compiles) == expected


def test_kernels_that_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(compact._cache, "_cache_path", str(tmp_path))
    assert not how_long.kernels_are_kept()
    Path(tmp_path, "kernels.compact-12.py311.1.nbc").touch()
    assert how_long.kernels_are_kept()


def test_what_is_said(monkeypatch, capsys):
    monkeypatch.setattr(how_long, "loop_seconds", lambda n_cores: 1.0)
    monkeypatch.setattr(how_long, "kernels_are_kept", lambda: False)
    monkeypatch.setattr(how_long.os, "sched_getaffinity", lambda pid: {0, 1})
    how_long.main()
    assert capsys.readouterr().out.startswith(
        "== this will take about 41 minutes, kernels to be compiled among it (21 on two idle cores"
    )
