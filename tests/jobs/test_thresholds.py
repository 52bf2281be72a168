"""`hpcml threshold` and who uses what it has found, as processes; one sentence for a user's mistake."""

import re

import numpy as np
import pytest
from support import make
from support.jobs import done, refused

from hpcml.model.linear import Model


@pytest.fixture
def data(tmp_path):
    X, Y = make.random_data(7, 400, 60, 5, density=0.1)
    parts = np.array_split(np.arange(400), 3)
    return make.dataset(tmp_path / "data.h5", X, Y, splits=dict(zip(("train", "valid", "test"), parts, strict=True)))


def test_found_kept_and_used(standing, data, tmp_path):
    model = tmp_path / "run" / "model.h5"
    done(standing(2, "train", "probe", data, "-o", model.parent, "--loss", "logistic"))
    for measure, more in (("label", ()), ("micro", ("--method", "half")), ("instance", ())):
        found = []
        for n in (1, 3):
            output = tmp_path / f"{measure}{n}.h5"
            result = done(standing(n, "threshold", model, data, "--measure", measure, "-o", output, *more))
            assert len(re.findall("at (threshold 0|probability 0.5)  ", result.stdout)) == 1
            found.append((output.read_bytes(), result.stdout.replace(output.name, "")))
        assert found[0] == found[1]
    assert "0 for all labels" in standing(2, "info", model).stdout
    result = standing(2, "threshold", model, data, "--measure", "instance", "--split", "train")
    assert "training rows of the model" in result.stdout
    refused(standing(2, "threshold", model, data, "--measure", "micro"), "has thresholds (measure instance); use --force")
    done(standing(2, "threshold", model, data, "--measure", "instance", "--force"))
    assert Model(model).thresholds.tolist() == Model(tmp_path / "instance1.h5").thresholds.tolist()
    assert "chosen on split valid (measure instance, method search)" in standing(1, "info", model).stdout

    judged = standing(2, "evaluate", model, data)
    assert "thresholds: chosen on split valid (measure instance" in judged.stdout
    without = standing(2, "evaluate", model, data, "--threshold", "0")
    assert "thresholds: 0 for all labels" in without.stdout and without.stdout != judged.stdout
    for n in (1, 2):
        said = standing(n, "predict", model, data, "-o", tmp_path / f"labels{n}.csv")
        assert "by thresholds (chosen on split" in said.stderr
    assert (tmp_path / "labels1.csv").read_bytes() == (tmp_path / "labels2.csv").read_bytes()
    done(standing(2, "predict", model, data, "-o", tmp_path / "zero.csv", "--threshold=-1e9"))
    ids = [line.partition(",")[0] for line in (tmp_path / "zero.csv").read_text().splitlines()[1:]]
    assert len(ids) == 5 * len(set(ids)) > 0
