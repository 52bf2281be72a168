"""Pictures of PSBML runs."""

import numpy as np
import pytest
from hpcml.plots import psbml as analysis
from support.make import class_data, dataset
from support.tables import table
from support.training import train

from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.methods.psbml.options import PsbmlOptions

START = {".pdf": b"%PDF", ".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml"}
QUIET = Log(1)


@pytest.fixture(scope="module", autouse=True)
def _drawing():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'hpcml[plot]')")


def trained(folder, n_features, grid="3x2"):
    """A run on random data, its training rows not the first of the file."""
    X, _, Y = class_data(1, 300, n_features, 2)
    data = dataset(folder / "data.h5", X, Y, splits={"train": np.arange(10, 300)})
    options = PsbmlOptions(grid=grid, cycles=4, neighbourhood="L5")
    train("psbml", mpi.self_comm(), data, folder / "run", options, log=QUIET)
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on two features."""
    return trained(tmp_path_factory.mktemp("two"), 2)


def test_the_csv_holds_the_nodes_and_the_margin_rows(run, tmp_path):
    said = analysis.plot_run(None, run, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(START[".png"])
    model = analysis.ClassifierModel(run / "model.h5")
    assert f"{model.margin_rows.size} of 290 rows are margin data, from cycle {model.cycle} (validation error" in said
    nodes, margin = ([line for line in table(tmp_path / "a.csv") if line["kind"] == kind] for kind in ("node", "margin row"))
    assert [(line["x"], line["y"]) for line in nodes] == [(str(x), str(y)) for y in range(2) for x in range(3)]
    assert [int(line["margin_rows"]) for line in nodes] == model.attrs["node_rows"].tolist()
    assert [float(line["weight"]) for line in nodes] == model.attrs["node_weights"].tolist()
    assert [int(line["number"]) for line in margin] == model.margin_rows.tolist()
    np.testing.assert_allclose([float(line["weight"]) for line in margin], model.margin_weights)
    X = class_data(1, 300, 2, 2)[0].toarray().astype(np.float32)
    assert [[float(line["x"]), float(line["y"])] for line in margin] == X[model.margin_rows].tolist()


@pytest.mark.parametrize(("n_features", "grid"), [(1, "1x1"), (2, "2x12"), (30, "3x3")])
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_any_width_and_torus_can_be_drawn_and_equal_runs_look_equal(tmp_path, n_features, grid, suffix):
    run = trained(tmp_path, n_features, grid)
    pictures = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for picture in pictures:
        analysis.plot_run(None, run, picture)
    first, second = (picture.read_bytes() for picture in pictures)
    assert first.startswith(START[suffix])
    assert first == second
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_of_many_rows_a_sample_is_drawn(run, tmp_path, monkeypatch):
    monkeypatch.setattr(analysis, "MOST_ROWS", 50)
    analysis.plot_run(None, run, tmp_path / "a.png")
    drawn = [int(line["number"]) for line in table(tmp_path / "a.csv") if line["kind"] == "margin row"]
    assert len(drawn) == 50
    assert drawn == sorted(drawn)
    assert np.isin(drawn, analysis.ClassifierModel(run / "model.h5").margin_rows).all()


def other_run(tmp_path, method, finished=True):
    """A folder that says it is of another method, or has no model."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "config.toml").write_text(f'method = "{method}"\ndata = "x.h5"\n')
    if finished:
        (folder / "model.h5").touch()
    return folder


def strange(folder, n_features):
    """A dataset of other rows."""
    X, _, Y = class_data(1, 100, n_features, 2)
    return dataset(folder / "strange.h5", X, Y, splits={"train": np.arange(100)})


def with_damaged_history(run, folder):
    for name in ("config.toml", "model.h5"):
        (folder / name).write_bytes((run / name).read_bytes())
    (folder / "history.csv").write_text("cycle,error\n1,0.5\n")
    return folder


def unfinished(_, folder):
    return {"run": other_run(folder, "psbml", finished=False)}


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        (lambda _, tmp: {"run": tmp}, ConfigError, "is no run folder (it has no config.toml)"),
        (lambda _, tmp: {"run": other_run(tmp, "probe")}, ConfigError, "is a run of probe; the picture is about psbml"),
        (unfinished, ConfigError, "is not finished (it has no model.h5); continue it with --resume first"),
        (lambda _, tmp: (tmp / "a.csv").touch(), ConfigError, "exists already; choose another name or use --force"),
        (lambda run, _: {"output": run / "history.png", "force": True}, ConfigError, "history.csv is also an input"),
        (lambda _, tmp: {"output": tmp / "a.gif"}, ConfigError, "cannot draw a .gif"),
        (lambda _, tmp: {"output": tmp / "no" / "a.png"}, DataError, "does not exist; create it first"),
        (lambda _, tmp: {"data": strange(tmp, 3)}, DataError, "has 3 features but"),
        (lambda _, tmp: {"data": strange(tmp, 2)}, DataError, "was trained on other data"),
        (lambda _, tmp: {"data": tmp / "gone.h5"}, DataError, "cannot read"),
        (lambda run, tmp: {"run": with_damaged_history(run, tmp)}, DataError, "damaged history"),
    ],
)
def test_runs_that_cannot_be_drawn_are_refused(run, tmp_path, changed, error, words):
    given = {"run": run, "output": tmp_path / "a.png"} | (changed(run, tmp_path) or {})
    with pytest.raises(error) as raised:
        analysis.plot_run(None, **given)
    assert words in str(raised.value)
    assert not (tmp_path / "a.png").exists()
