import numpy as np
import pytest
import scipy.optimize
from support import oracles, toy_loss
from support.make import dataset, random_data
from support.training import train

from hpcml.errors import ConfigError
from hpcml.losses import FIRST_ORDER, LOSSES, hinge, load_loss
from hpcml.methods.probe.options import ProbeOptions
from hpcml.model.linear import Model

every_loss = pytest.mark.parametrize("loss", sorted(LOSSES))
MARGINS = np.concatenate([np.linspace(-6, 6, 61) + 0.0123, [-1.0, 1.0, 0.0]])


def at(loss, z):
    return load_loss(loss).at(float(z))


@every_loss
def test_formula(loss):
    assert LOSSES.keys() == oracles.VALUES.keys()
    for z in MARGINS:
        value, slope, _ = at(loss, z)
        assert value == pytest.approx(float(oracles.VALUES[loss](z)), rel=1e-13, abs=1e-16)
        if loss in FIRST_ORDER:
            assert (value, slope) == pytest.approx(oracles.LOSSES[loss](z), rel=1e-13, abs=1e-16)


@every_loss
def test_derivatives(loss):
    h = 1e-6
    for z in MARGINS[:61]:
        (low, low_slope, _), (high, high_slope, _), (_, slope, curvature) = at(loss, z - h), at(loss, z + h), at(loss, z)
        assert slope == pytest.approx((high - low) / (2 * h), abs=1e-5)
        assert curvature == pytest.approx((high_slope - low_slope) / (2 * h), abs=1e-5)


@every_loss
def test_convex_and_within_its_bounds(loss):
    module = load_loss(loss)
    values, slopes, curvatures = np.array([at(loss, z) for z in np.sort(MARGINS)]).T
    assert (np.diff(slopes) >= 0).all() and (curvatures >= 0).all()
    assert (values >= 0).all()
    assert (abs(slopes) <= module.SLOPE_BOUND).all()
    assert all(at(loss, z)[0] <= module.VALUE_AT_ZERO + module.SLOPE_BOUND * abs(z) + 1e-12 for z in MARGINS[MARGINS != 0])
    assert at(loss, 0.0)[0] == pytest.approx(module.VALUE_AT_ZERO)
    assert (set(np.unique(slopes)) <= {-1.0, 0.0}) == module.HAS_UNIT_SLOPES
    assert np.isfinite(module.SLOPE_BOUND) == (loss in FIRST_ORDER)


@pytest.mark.parametrize("loss", sorted(set(LOSSES) - {"huber"}))
def test_dual_is_the_conjugate(loss):
    module = load_loss(loss)
    for z in MARGINS:
        value, slope, _ = at(loss, z)
        a = -slope
        found = module.dual(a) if hasattr(module, "dual") else a - module.DUAL_CURVATURE * a * a / 2
        assert found == pytest.approx(value + a * z, rel=1e-9, abs=1e-12)
        assert hasattr(module, "dual") or a <= module.DUAL_TOP


@pytest.mark.parametrize("width", [4.0, 0.25, 2.0**-10])
def test_smoothed_hinge_is_at_most_half_its_width_lower(width):
    for z in MARGINS:
        value, slope, curvature = hinge.smoothed_at(z, width)
        assert 0 <= hinge.at(z)[0] - value <= width / 2 and -1 <= slope <= 0 and curvature in (0.0, 1.0 / width)
        assert hinge.smoothed_at(z, 0.0) == hinge.at(z)


@pytest.mark.parametrize("loss", FIRST_ORDER)
@pytest.mark.parametrize("z", [-1e300, -1e4, -800.0, 800.0, 1e4, 1e300])
def test_any_margin_is_finite(loss, z):
    value, slope, curvature = at(loss, z)
    assert np.isfinite([value, slope, curvature]).all()
    assert (value == 0) == (slope == 0)
    if z < 0:
        assert value == pytest.approx(load_loss(loss).SLOPE_BOUND * -z, rel=2e-3)


def test_new_loss_needs_a_module_and_a_name(tmp_path, monkeypatch):
    X, Y = random_data(3, 80, 12, 2, 0.4)
    data = dataset(tmp_path / "data.h5", X, Y)
    with pytest.raises(ConfigError, match="--loss toy: expected hinge or huber or logistic"):
        train("probe", None, data, tmp_path / "no", {"loss": "toy"})
    monkeypatch.setitem(LOSSES, "toy", toy_loss.__name__)
    monkeypatch.setattr(ProbeOptions, "losses", (*FIRST_ORDER, "toy"))
    options = {"loss": "toy", "lam": "0.05", "bias": False, "epsilon": 1e-3, "precision": "double"}
    model, dense = Model(train("probe", None, data, tmp_path / "run", options).model), X.toarray().astype(float)
    for label in range(2):
        sign = np.where(Y.toarray()[:, label] != 0, 1.0, -1.0)

        def f(w, sign=sign):
            return 0.025 * w @ w + np.mean(np.sqrt(1 + (1 - sign * (dense @ w)) ** 2) - 1)

        assert model.labels["f_min"][label] == pytest.approx(f(model.weights(label)), rel=1e-6)
        assert model.labels["f_min"][label] == pytest.approx(scipy.optimize.minimize(f, np.zeros(12)).fun, rel=1e-3)
