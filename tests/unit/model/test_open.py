"""A model is named by its file or by its run folder."""

import numpy as np
import pytest
from support.make import model

from hpcml.errors import DataError
from hpcml.model.open import kind_of, model_file, open_model


def test_run_folders(tmp_path):
    run = tmp_path / "runs" / "first"
    run.mkdir(parents=True)
    with pytest.raises(DataError, match=r"first: a folder without a model \(model\.h5\)"):
        model_file(run)
    (run / "config.toml").write_text("")
    with pytest.raises(DataError, match="first: this run is not finished, so it has no model yet; continue it with --resume"):
        open_model(run)
    model(run / "model.h5", np.ones((2, 3)))
    assert model_file(run) == model_file(run / "model.h5") == run / "model.h5"
    assert kind_of(run) == "model"
    assert open_model(run).path == run / "model.h5"
    with pytest.raises(DataError, match=r"runs: a folder of runs; name one of them: first$"):
        model_file(tmp_path / "runs")
