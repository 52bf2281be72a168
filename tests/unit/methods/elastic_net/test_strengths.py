"""λ₁ and λ₂ of `elastic-net`: notation, defaults, and the warning about dense rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.make import dataset, random_data
from support.training import train

from hpcml import ElasticNetClassifier
from hpcml.methods.elastic_net.options import parse_l1


@pytest.mark.parametrize(("text", "value"), [("N/m", 0.03), ("0.1N/m", 0.003), ("2/m", 0.02), ("0.5", 0.5), ("0", 0.0)])
def test_l1(text, value):
    assert parse_l1(text, 3.0, 100) == pytest.approx(value)


def test_default_strengths_do_not_depend_on_the_scale_of_the_rows():
    X, Y = random_data(5, 300, 40, 3, density=0.2)
    X, y = abs(sp.csr_matrix(X)), (Y.toarray() != 0).astype(int)
    once, large = (ElasticNetClassifier(max_gap=1e-10, precision="double").fit(factor * X, y) for factor in (1, 64))
    assert np.count_nonzero(once.coef_)
    np.testing.assert_allclose(64 * large.coef_, once.coef_, atol=1e-5)
    np.testing.assert_allclose(large.intercept_, once.intercept_, atol=1e-5)


@pytest.mark.parametrize(("density", "warns"), [(0.5, True), (0.005, False)])
def test_warns_of_frequent_features(tmp_path, density, warns):
    X, Y = random_data(7, 400, 60, 2, density=density)
    data, run = dataset(tmp_path / "data.h5", abs(sp.csr_matrix(X)), Y), tmp_path / "run"
    train("elastic-net", None, data, run, {})
    lines, warning = (run / "log.txt").read_text().splitlines(), "elastic-net is slow on such rows"
    told = [number for number, line in enumerate(lines) if warning in line]
    assert len(told) == warns
    if warns:
        (share,) = (float(word) for word in lines[told[0]].split(" % of the rows")[0].split()[-1:])
        assert share == pytest.approx(100 * np.count_nonzero(sp.csr_matrix(X).toarray()) / (400 * 60), abs=1)
        assert "training 2 labels" in lines[told[0] - 2]
