"""Every loss of the registry against finite differences, its printed formula, and margins of any size."""

import numpy as np
import pytest
from support import oracles

from hpcml.methods.linear import panel_kernels as panel
from hpcml.methods.linear.losses import LOSSES

every_loss = pytest.mark.parametrize("loss", sorted(LOSSES))
MARGINS = np.concatenate([np.linspace(-6, 6, 241) + 0.0123, [-1.0, 1.0, 0.0]])


def value_and_slope(loss, z):
    return panel.value_and_slope(LOSSES[loss].code, float(z))


def test_codes_are_those_of_the_kernels():
    codes = {"hinge": panel.HINGE, "huber": panel.HUBER, "logistic": panel.LOGISTIC}
    assert {name: loss.code for name, loss in LOSSES.items()} == codes


@every_loss
def test_formula(loss):
    for z in MARGINS:
        assert value_and_slope(loss, z) == pytest.approx(oracles.LOSSES[loss](z), rel=1e-13, abs=1e-16)


@every_loss
def test_slope_is_the_derivative(loss):
    h = 1e-6
    for z in MARGINS[:241]:
        difference = (value_and_slope(loss, z + h)[0] - value_and_slope(loss, z - h)[0]) / (2 * h)
        assert value_and_slope(loss, z)[1] == pytest.approx(difference, abs=1e-5)


@every_loss
def test_convex_and_within_the_bounds_that_the_registry_states(loss):
    entry = LOSSES[loss]
    values, slopes = np.array([value_and_slope(loss, z) for z in np.sort(MARGINS)]).T
    assert (np.diff(slopes) >= 0).all()
    assert (values >= 0).all()
    assert (abs(slopes) <= entry.slope_bound).all()
    assert (values <= entry.value_at_zero + entry.slope_bound * abs(np.sort(MARGINS)) + 1e-12).all()
    assert value_and_slope(loss, 0.0)[0] == pytest.approx(entry.value_at_zero)
    assert entry.unit_slopes == (set(np.unique(slopes)) <= {-1.0, 0.0})


@every_loss
@pytest.mark.parametrize("z", [-1e300, -1e4, -800.0, 800.0, 1e4, 1e300])
def test_any_margin_is_finite(loss, z):
    value, slope = value_and_slope(loss, z)
    assert np.isfinite(value)
    assert np.isfinite(slope)
    assert (value == 0) == (slope == 0)
    if z < 0:
        assert value == pytest.approx(LOSSES[loss].slope_bound * -z, rel=2e-3)
