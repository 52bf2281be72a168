"""Synthetic data: points of the plane in two classes (Kamath, Domeniconi & De Jong 2018), and a text corpus of any size.

Every value of a point is a function of the seed and the row number. The class is that of the point as stored (float32).

The corpus has words by Zipf's law, long-tailed labels, and words caused by labels.
A row is a function of the seed, its number and the numbers of features and labels, so a longer corpus begins with the same rows.
Words and labels are ranked by frequency; their columns are the ranks in a scattered order.

- Words: the share of the word of rank r is ∫ (x + q)^-s dx over r..r+1, divided by the total (Zipf–Mandelbrot). The number of
  words of a row is the sum of two geometric numbers of mean m, so a word of share p is absent with probability (1 + p m)⁻².
- Labels: a row mentions each label a Poisson number of times. Label shares follow such a law, too, with a minimum of
  `least_share` of the rows.
- A true mention gives the row the label, and usually its words. A false mention gives words without the label. Labels differ in
  how often mentions are false or silent (without words). Each word of a label has its own probability per mention.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import NumberRows, NumberSlice, finish
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.synthetic_kernels import MAX_MENTIONS, MAX_WORDS, make_rows, normal
from hpcml.data.svmlight import BINARY
from hpcml.errors import ConfigError, OptionError
from hpcml.kernels import elementary, elementwise
from hpcml.rng import bits, uniform

MEAN_WORDS = 33.0  # mean of each of the two geometric numbers
EXPONENT, SHIFT = 1.14, 8.0  # s and q of the words
LABEL_EXPONENT, LABEL_SHIFT = 1.2, 4.0
MOST_LABELS = 30.0  # true mentions per row: more than MAX_MENTIONS then have a probability below 1e-19
TOP_RATE = 0.35  # true mentions per row of the most frequent label, which 1 - exp(-0.35) = 30 % of the rows then have
FEIGNED = 0.5  # false per true mention of the hardest label
SILENT = 0.25  # share of rows with the hardest label that lack its words
LABEL_WORDS = 16
CHANCE = 0.5  # probability of the first word of the easiest label per mention
FIRST_RANK, LAST_POWER = 30.0, 0.9  # words of labels have ranks from 30 to features^0.9
AGAIN = 0.15  # probability that a word occurs once more
SLAB_VALUES = 1 << 20
CHUNK = 1 << 18  # features per block
MIN_FEATURES, MAX_FEATURES, MAX_LABELS = 100, 2**31 - 1, 10**6
RADIUS = 0.4  # of the circle
SQUARE = 0.5  # side of the checkerboard's squares
COS, SIN = 0.7071067811865476, 0.7071067811865475  # of the checkerboard's rotation by π/4
PERIODS = 5  # of the sine wave
GAP = 0.02  # between the Gaussian points and the boundary
# Gaussians of the positive class: mean x and y, standard deviations along two axes, cosine and sine of the angle between the
# first axis and x. The products of the deviations are equal: equal shares of equal area.
GAUSSIANS = np.array(
    [
        (0.12, 0.12, 0.1067, 0.06, COS, -SIN),
        (-0.05, 0.72, 0.16, 0.04, 0.8660254037844387, 0.49999999999999994),
        (0.72, -0.05, 0.04, 0.16, 0.8660254037844387, -0.49999999999999994),
        (0.38, 0.45, 0.08, 0.08, 1.0, 0.0),
        (0.75, 0.75, 0.128, 0.05, 0.5000000000000001, 0.8660254037844386),
    ]
)

Draw = Callable[[str], np.ndarray]


def zipf_law(size: int, exponent: float, shift: float) -> tuple[float, float, float, float, int]:
    """Return shift, power = 1 - exponent, shift^power, power ∫ (x + shift)^-exponent dx over 0..size, and size."""
    power = 1 - exponent
    start = float(elementary.power(shift, power))
    return shift, power, start, float(elementary.power(size + shift, power)) - start, size


def zipf_shares(ranks: np.ndarray, size: int, exponent: float, shift: float) -> np.ndarray:
    _, power, _, span, _ = zipf_law(size, exponent, shift)
    return np.diff(elementwise.power(np.stack([ranks, ranks + 1.0]) + shift, power), axis=0)[0] / span


def _scattered(seed: int, size: int, what: str) -> tuple[int, int, int]:
    """Return (a, b, size) of the order r → (a r + b) mod size, in which neighbours are far apart."""
    factor = max(1, int(size * (math.sqrt(5) - 1) / 2))
    while math.gcd(factor, size) != 1:
        factor += 1
    return factor, int(bits(seed, what, np.zeros(1))[0] % np.uint64(size)), size


def label_rates(n_labels: int, least_share: float = 0.0) -> tuple[np.ndarray, int]:
    """Return true mentions per row by label rank, and the number of labels that follow Zipf's law; the others have the minimum."""
    shares = zipf_shares(np.arange(n_labels), n_labels, LABEL_EXPONENT, LABEL_SHIFT)
    rates = TOP_RATE / shares[0] * shares
    least = -elementary.log1p(-least_share)
    head = max(1, int(np.searchsorted(-rates, -least, side="right")))
    rates[head:] = least
    return rates, head


class SyntheticText:
    """A corpus; needs 4 bytes per feature and 280 per label. Local. `least_share`: minimum expected share of rows of a label."""

    def __init__(self, seed: int, n_features: int, n_labels: int, least_share: float = 0.0) -> None:
        self.seed, self.n_features, self.n_labels = seed, n_features, n_labels
        self.order = _scattered(seed, n_features, "text order of features")
        self.label_order = _scattered(seed, n_labels, "text order of labels")
        self.rates, self.head = label_rates(n_labels, least_share)
        hard = uniform(seed, "text hardness of labels", np.arange(n_labels))
        self.silent, self.feigned = SILENT * hard, hard
        self.chances = CHANCE * (1 - 0.5 * hard)[:, None] / np.sqrt(1.0 + np.arange(LABEL_WORDS))
        # The ranks of each label's words (labels × words, int64), log-uniform.
        draws = uniform(seed, "text words of labels", np.arange(n_labels * LABEL_WORDS))
        span = elementary.log(elementary.power(float(n_features), LAST_POWER) / FIRST_RANK)
        self.words = (FIRST_RANK * elementwise.exp(draws * span)).astype(np.int64).reshape(n_labels, LABEL_WORDS)
        self.idf = self._idf()

    def columns(self, ranks: np.ndarray) -> np.ndarray:
        factor, offset, size = self.order
        return (ranks * factor + offset) % size

    def row_shares(self, ranks: np.ndarray, brought: np.ndarray | float = 0.0) -> np.ndarray:
        shares = zipf_shares(ranks, self.n_features, EXPONENT, SHIFT)
        return 1 - elementwise.exp(-np.asarray(brought)) / np.square(1 + shares * MEAN_WORDS)

    def _idf(self) -> np.ndarray:
        """Return -log of the expected share of rows with each feature (float32), by column."""
        idf = np.empty(self.n_features, dtype=np.float32)
        for begin in range(0, self.n_features, CHUNK):
            ranks = np.arange(begin, min(begin + CHUNK, self.n_features))
            idf[self.columns(ranks)] = -elementwise.log(self.row_shares(ranks))
        ranks, positions = np.unique(self.words, return_inverse=True)
        heard = self.rates * (1 - self.silent + FEIGNED * self.feigned)
        brought = np.bincount(positions.reshape(-1), weights=(heard[:, None] * self.chances).reshape(-1))
        idf[self.columns(ranks)] = -elementwise.log(self.row_shares(ranks, brought))
        return idf

    def slabs(self, begin: int, end: int, n_values: int = SLAB_VALUES) -> Iterator[tuple[NumberSlice, np.ndarray, np.ndarray]]:
        """Yield rows begin..end (X, labels per row, ascending label columns), with about `n_values` values at a time."""
        on = elementary.log(MEAN_WORDS / (1 + MEAN_WORDS))
        of_head = float(self.rates[: self.head].sum() / self.rates.sum()) if self.head < self.n_labels else 1.0
        head_law = zipf_law(self.head, LABEL_EXPONENT, LABEL_SHIFT), of_head
        label_law = elementary.exp(-self.rates.sum() * (1 + FEIGNED)), 1 / (1 + FEIGNED), head_law
        laws = (on, zipf_law(self.n_features, EXPONENT, SHIFT)), label_law, AGAIN
        brings = self.silent, self.feigned, self.chances, self.words
        room = MAX_WORDS + MAX_MENTIONS * LABEL_WORDS
        scratch = tuple(np.empty(size, dtype=np.int64) for size in (room, room, MAX_MENTIONS))
        n_values = max(n_values, room)
        n_rows = n_values // 32
        lengths, label_lengths = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
        indices, data = np.empty(n_values, dtype=np.int32), np.empty(n_values, dtype=np.float32)
        label_indices = np.empty(max(n_values // 8, MAX_MENTIONS), dtype=np.int64)
        out = lengths, indices, data, label_lengths, label_indices
        while begin < end:
            states = bits(self.seed, "text row", np.arange(begin, min(end, begin + n_rows)))
            rows, size, entries = make_rows(states, laws, brings, self.idf, (self.order, self.label_order), scratch, out)
            yield NumberSlice(lengths[:rows], indices[:size], data[:size]), label_lengths[:rows], label_indices[:entries]
            begin += rows


def least_share(options: ConvertOptions, n_labels: int) -> float:
    least, n_rows = options.least_positives, options.rows
    if least is None:
        return 0.0
    if not 0 < least < n_rows:
        raise OptionError("least_positives", least, f"expected a number above 0 and below the number of rows, {n_rows}")
    rates, _ = label_rates(n_labels)
    rarest = n_rows * -elementary.expm1(-rates[-1])
    if least <= rarest:
        why = f"has no effect because the rarest label is expected in {rarest:.1f} rows; remove it"
        raise OptionError("least_positives", least, why)
    a_row = float(label_rates(n_labels, least / n_rows)[0].sum())
    if a_row > MOST_LABELS:
        most = f"but may have {MOST_LABELS:g}; use more rows"
        raise OptionError("least_positives", least, f"a row would have {a_row:.1f} labels on average, {most}")
    return least / n_rows


def read_text(task: Conversion) -> Part:
    options = task.options
    sizes = []
    for name, least, most in (("features", MIN_FEATURES, MAX_FEATURES), ("labels", 1, MAX_LABELS)):
        text = ",".join(getattr(options, name))
        if not text:
            raise ConfigError(f"synthetic text needs --{name}, the number of {name}")
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
            raise OptionError(name, text, f"expected one whole number from {least} to {most}")
        sizes.append(int(text))
    n_features, n_labels = sizes
    with mpi.agreed(task.comm, "generating a corpus"):
        corpus = SyntheticText(options.seed, n_features, n_labels, least_share(options, n_labels))
        rows = NumberRows(task, None, n_features)
        for values, label_lengths, labels in corpus.slabs(*task.share(options.rows)):
            rows.add(values)
            rows.labels.append(label_lengths, labels)
    width = len(str(n_labels - 1))
    return finish(task, rows, [f"L{label:0{width}}" for label in range(n_labels)])


class Points(NamedTuple):
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
    mean_x, mean_y, first, second, cos, sin = GAUSSIANS.T
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
    u, v = x * COS - y * SIN, x * SIN + y * COS
    return Points(x, y, (np.floor(u / SQUARE) + np.floor(v / SQUARE)) % 2 == 0)


def sine(draw: Draw) -> Points:
    """Uniform in [0, 10π] × [-1, 1]; positive where y > sin x.

    After Kamath et al. (2018), section 6.3; function and intervals are not legible in our copy. With these, the best line
    classifies 69 % of the points correctly; the paper's linear machines reach 62 % to 69 %.
    """
    x, y = _rectangle(draw, (0, 2 * math.pi * PERIODS), (-1, 1))
    half_turns = np.rint(x / math.pi)
    rest = x - half_turns * math.pi
    series = np.ones(x.size)
    for k in range(24, 0, -2):  # sin r = r (1 − r²/(2·3) (1 − r²/(4·5) (…))), the same bits on all processors
        series = 1 - rest * rest / (k * (k + 1)) * series
    return Points(x, y, y > np.where(half_turns % 2, -rest, rest) * series)


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
    return finish(task, rows, BINARY)
