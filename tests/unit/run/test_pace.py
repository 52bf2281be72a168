"""How often checkpoints are written if nobody says."""

import pytest

from hpcml.run.checkpoint import LEAST, MOST, WORTH, Pace


class Clock:
    """Time that goes when it is told to."""

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


def test_first_checkpoint_comes_soon():
    clock = Clock()
    pace = Pace(None, clock)
    clock.now += 0.99 * LEAST
    assert not pace.due
    clock.now += 0.02 * LEAST
    assert pace.due


@pytest.mark.parametrize(("cost", "wait"), [(0.001, LEAST), (1.0, WORTH), (2.0, 2 * WORTH), (60.0, MOST)])
def test_checkpoints_take_a_fiftieth_of_the_time(cost, wait):
    clock = Clock()
    assert wait_of(Pace(None, clock), clock, cost) == pytest.approx(wait, abs=1e-3)


def test_who_asks_for_seconds_gets_them():
    clock = Clock()
    assert wait_of(Pace(0.25, clock), clock, 60.0) == pytest.approx(0.25, abs=1e-3)
