"""How often checkpoints are written if nobody says."""

import pytest

from hpcml.run.checkpoint import COST_RATIO, MAX_SECONDS, MIN_SECONDS, Pace


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def wait_of(pace, clock, cost):
    """Seconds from the end of a checkpoint that took `cost` until the next is due, within a millisecond."""
    with pace.saving():
        clock.now += cost
    low, high, begin = 0.0, 1e6, clock.now
    while high - low > 1e-4:
        clock.now = begin + (low + high) / 2
        low, high = (low, clock.now - begin) if pace.due else (clock.now - begin, high)
    clock.now = begin
    return high


@pytest.mark.parametrize(("cost", "wait"), [(0.001, MIN_SECONDS), (1.0, COST_RATIO), (2.0, 2 * COST_RATIO), (60.0, MAX_SECONDS)])
def test_checkpoints_take_two_percent_of_the_time(cost, wait):
    clock = Clock()
    assert wait_of(Pace(None, clock), clock, cost) == pytest.approx(wait, abs=1e-3)


def test_interval_in_seconds_is_kept():
    clock = Clock()
    assert wait_of(Pace(0.25, clock), clock, 60.0) == pytest.approx(0.25, abs=1e-3)
