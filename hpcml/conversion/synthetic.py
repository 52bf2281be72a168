"""Points of the plane in two classes: the synthetic data of Kamath, Domeniconi & De Jong (2018).

Every value is a function of the seed and the row number. The class is that of the point as stored (float32). The text corpus is in
`synthetic_text`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import NumberRows, NumberSlice, finish
from hpcml.conversion.part import Part
from hpcml.conversion.synthetic_kernels import normal
from hpcml.conversion.synthetic_text import read_text
from hpcml.data.svmlight import BINARY
from hpcml.errors import OptionError
from hpcml.kernels import elementary, elementwise
from hpcml.rng import uniform

RADIUS = 0.4  # of the circle
SQUARE = 0.5  # side of the checkerboard's squares
ANGLE = math.pi / 4  # rotation of the checkerboard
PERIODS = 5  # of the sine wave
GAP = 0.02  # between the Gaussian points and the boundary
# Gaussians of the positive class: mean x and y, standard deviations along two axes, angle between the first axis and x. The
# products of the deviations are equal: equal shares of equal area.
GAUSSIANS = np.array(
    [
        (0.12, 0.12, 0.1067, 0.06, -math.pi / 4),
        (-0.05, 0.72, 0.16, 0.04, math.pi / 6),
        (0.72, -0.05, 0.04, 0.16, -math.pi / 6),
        (0.38, 0.45, 0.08, 0.08, 0.0),
        (0.75, 0.75, 0.128, 0.05, math.pi / 3),
    ]
)

Draw = Callable[[str], np.ndarray]


class Points(NamedTuple):
    """Coordinates (float64, exact in float32), and whether each point is positive."""

    x: np.ndarray
    y: np.ndarray
    positive: np.ndarray


def _stored(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def _rectangle(draw: Draw, x_range: tuple[float, float], y_range: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    x, y = (_stored(low + (high - low) * draw(axis)) for axis, (low, high) in (("x", x_range), ("y", y_range)))
    return x, y


def circle(draw: Draw) -> Points:
    """Uniform in [-1, 1]²; positive where √(x² + y²) ≥ 0.4 (Kamath et al. 2018, section 5.1)."""
    x, y = _rectangle(draw, (-1, 1), (-1, 1))
    return Points(x, y, np.sqrt(x * x + y * y) >= RADIUS)


def gaussians(draw: Draw) -> Points:
    """Five equally likely Gaussians of equal area per class; positive where x + y > 0.

    After Kamath et al. (2018), section 5.3; the means and the boundary are not legible in our copy. The negative class is the
    mirror image of the positive one, (x, y) → (-y, -x). In each class one Gaussian is nearest to the boundary. A point closer to it
    than 0.02, or beyond it, is reflected at the line 0.02 away, so the classes are separable with that gap.
    """
    component = (2 * len(GAUSSIANS) * draw("component")).astype(np.intp)
    positive = component < len(GAUSSIANS)
    mean_x, mean_y, first, second, angle = GAUSSIANS.T
    cos, sin = elementwise.cos(angle), elementwise.sin(angle)
    number = component % len(GAUSSIANS)
    a, b = (
        deviation[number] * normal(np.maximum(draw(axis), 2.0**-54))  # a draw of 0 would give −∞
        for axis, deviation in (("first axis", first), ("second axis", second))
    )
    x = mean_x[number] + cos[number] * a - sin[number] * b
    y = mean_y[number] + sin[number] * a + cos[number] * b
    shift = math.sqrt(2) * np.maximum(0, GAP - (x + y) / math.sqrt(2))  # twice the distance to that line, on each axis
    x, y = x + shift, y + shift
    return Points(_stored(np.where(positive, x, -y)), _stored(np.where(positive, y, -x)), positive)


def checkerboard(draw: Draw) -> Points:
    """Uniform in [0, 1]²; positive where ⌊2u⌋ + ⌊2v⌋ is even, where (u, v) is the point rotated by π/4.

    Kuncheva's rotated checkerboard with a = 1/2 as in Elwell & Polikar (2011), who use all angles; Kamath et al. (2018), section
    6.3, refer to it and state neither parameter.
    """
    x, y = _rectangle(draw, (0, 1), (0, 1))
    cos, sin = elementary.cos(ANGLE), elementary.sin(ANGLE)
    u, v = x * cos - y * sin, x * sin + y * cos
    return Points(x, y, (np.floor(u / SQUARE) + np.floor(v / SQUARE)) % 2 == 0)


def sine(draw: Draw) -> Points:
    """Uniform in [0, 10π] × [-1, 1]; positive where y > sin x.

    After Kamath et al. (2018), section 6.3; function and intervals are not legible in our copy. With these, the best line
    classifies 69 % of the points correctly; the paper's linear machines reach 62 % to 69 %.
    """
    x, y = _rectangle(draw, (0, 2 * math.pi * PERIODS), (-1, 1))
    return Points(x, y, y > elementwise.sin(x))


GENERATORS = {"checkerboard": checkerboard, "circle": circle, "gaussians": gaussians, "sine": sine}
TEXT = "text"


def make_points(name: str, seed: int, rows: np.ndarray) -> Points:
    return GENERATORS[name](lambda what: uniform(seed, f"{name} {what}", rows))


def read_synthetic(task: Conversion) -> Part:
    name, n_rows = task.generator, task.options.rows
    if name == TEXT:
        return read_text(task)
    for option in ("features", "labels", "least_positives"):
        if (value := getattr(task.options, option)) not in ((), None):
            raise OptionError(option, value, f"is for synthetic text, but this is {name}; remove it")
    points = make_points(name, task.options.seed, np.arange(*task.share(n_rows)))
    values = np.stack([points.x, points.y], axis=1).astype(np.float32)
    keep = values != 0
    rows = NumberRows(task, ["x", "y"], 2)
    rows.add(NumberSlice(keep.sum(axis=1), np.nonzero(keep)[1], values[keep]))
    rows.labels.append(points.positive, np.zeros(np.count_nonzero(points.positive), dtype=np.int64))
    task.log.detail(f"{name}: {n_rows:,} points generated")
    return finish(task, rows, BINARY)
