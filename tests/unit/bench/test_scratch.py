"""The scratch folders of `bench ovr` and `plot margins`: what a killed run left in TMPDIR is removed by the next one."""

import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from support.make import dataset, random_data
from support.training import bench_ovr

from hpcml.bench.ovr import OvrOptions
from hpcml.methods.psbml.options import PsbmlOptions

WORKS = """
import sys, time
from hpcml.files.temporary import scratch_folder
with scratch_folder(sys.argv[1]) as folder:
    (folder / "data.h5").write_bytes(b"rows")
    print("READY", flush=True)
    time.sleep(60)
"""


def ovr(folder):
    data = dataset(folder / "data.h5", *random_data(3, 60, 12, 2), splits={"train": np.arange(40), "test": np.arange(40, 60)})
    bench_ovr(None, data, folder / "out", OvrOptions(("dual",), ("none",), (0.1,)), {})


def margins(_):
    from hpcml.plots.margins import problem_of

    with problem_of("circle", 100, PsbmlOptions(grid="2x2")):
        pass


@pytest.mark.parametrize(("name", "run"), [("hpcml-peers", ovr), ("hpcml-margins", margins)])
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path, monkeypatch, name, run):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)  # it is looked up anew
    with subprocess.Popen([sys.executable, "-c", WORKS, name], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "READY\n"
        (left,) = scratch.iterdir()
        assert left.name.startswith(f".{name}.part-") and (left / "data.h5").read_bytes() == b"rows"
        process.send_signal(signal.SIGKILL)
    assert left.exists()
    run(tmp_path)
    assert not list(scratch.iterdir())
