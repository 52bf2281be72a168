"""Synthetic points, and the synthetic corpus against a slow implementation and its expected frequencies."""

import math
from bisect import bisect
from itertools import accumulate
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from anndata.io import read_elem
from scipy.spatial.distance import pdist
from support.converted import check_refusal, converted

from hpcml.conversion import synthetic as module
from hpcml.conversion.synthetic import GENERATORS, SyntheticText, make_points, zipf_shares
from hpcml.data.dataset import DataFile
from hpcml.rng import bits

ROWS = np.arange(20_000)


def make(folder, name, source="synthetic", **options):
    output = Path(folder, "out.h5")
    report = converted(source, Path(name), output, **options)
    with h5py.File(output) as file:
        return report, read_elem(file["X"]).toarray(), read_elem(file["Y"]).toarray().astype(int), output


def textbook(name, x, y):
    if name == "circle":
        return not math.hypot(x, y) < 0.4
    if name == "gaussians":
        return x + y > 0
    if name == "checkerboard":  # complex numbers turn, too
        turned = complex(x, y) * (1 + 1j) / abs(1 + 1j)
        return (math.floor(2 * turned.real) + math.floor(2 * turned.imag)) % 2 == 0
    return y > math.sin(x)


BOXES = {
    "checkerboard": (0, 1, 0, 1, 0.5),
    "circle": (-1, 1, -1, 1, 1 - math.pi * 0.16 / 4),
    "gaussians": (-1.4, 1.4, -1.4, 1.4, 0.5),
    "sine": (0, 10 * math.pi, -1, 1, 0.5),
}


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_classes_of_the_stored_points(tmp_path, name):
    report, X, Y, path = make(tmp_path, name, rows=3000, seed=2)
    assert (report.rows, report.features, report.labels) == (3000, 2, 1)
    assert X.dtype == np.float32
    assert Y[:, 0].tolist() == [textbook(name, *point) for point in X.astype(float).tolist()]
    with DataFile(path) as dataset:
        assert dataset.label_names() == ["1"]
        assert dataset.strings("feature_names", 0, 2) == ["x", "y"]


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_positions_of_points(name):
    points = make_points(name, 5, ROWS)
    left, right, bottom, top, share = BOXES[name]
    assert left <= points.x.min() < points.x.max() <= right
    assert bottom <= points.y.min() < points.y.max() <= top
    assert points.positive.mean() == pytest.approx(share, abs=0.02)
    if name != "gaussians":
        for axis, low, high in ((points.x, left, right), (points.y, bottom, top)):
            counts = np.histogram(axis, bins=10, range=(low, high))[0]
            assert np.abs(counts - 2000).max() < 5 * math.sqrt(1800)


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_point_is_a_function_of_seed_and_number(name):
    whole = np.stack(make_points(name, 1, ROWS[:500]))
    assert (np.stack(make_points(name, 1, ROWS[123:300])) == whole[:, 123:300]).all()
    other = np.stack(make_points(name, 2, ROWS[:500]))
    assert (other[:2] != whole[:2]).all()
    assert pdist(whole[:2].T).min() > 0


def test_bad_options_are_refused(tmp_path):
    for options, words in (
        ({}, "--rows"),
        ({"rows": 0}, "--rows 0"),
        ({"rows": 3, "labels": ("2",)}, "--labels 2"),
    ):
        check_refusal(lambda options=options: make(tmp_path, "circle", **options), words)
    check_refusal(lambda: make(tmp_path, "cirkle", rows=3), "'circle'")


MASK = 2**64 - 1
N = 8_000
SIZES = {"features": ("500",), "labels": ("100",)}


class Stream:
    def __init__(self, state):
        self.state = int(state)

    def __call__(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        x = self.state
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
        return ((x ^ (x >> 31)) >> 11) / 2**53


def slow_row(corpus, row):
    draw = Stream(bits(corpus.seed, "text row", np.array([row]))[0])
    words = list(accumulate(zipf_shares(np.arange(corpus.n_features), corpus.n_features, module.EXPONENT, module.SHIFT).tolist()))
    labels = list(accumulate((corpus.rates / corpus.rates.sum()).tolist()))
    mean = module.MEAN_WORDS
    n_words = sum(int(math.log(1 - draw()) / math.log(mean / (1 + mean))) for _ in range(2))
    found = [bisect(words, draw()) for _ in range(n_words)]
    rate, mentions, product = corpus.rates.sum() * (1 + module.FEIGNED), 0, draw()
    while product > math.exp(-rate):
        mentions, product = mentions + 1, product * draw()
    of_row = set()
    for _ in range(mentions):
        label = bisect(labels, draw())
        true = draw() < 1 / (1 + module.FEIGNED)
        of_row |= {label} if true else set()
        if draw() >= corpus.silent[label] if true else draw() < corpus.feigned[label]:
            found += [word for word, chance in zip(corpus.words[label], corpus.chances[label], strict=True) if draw() < chance]
    a, b, size = corpus.order
    counts = {}
    for column in sorted((int(word) * a + b) % size for word in found):
        counts[column] = counts.get(column, 0) + 1
    values = {}
    for column, count in counts.items():
        while draw() < module.AGAIN:
            count += 1
        values[column] = math.log(count + 1) * corpus.idf[column]
    length = math.sqrt(sum(value * value for value in values.values()))
    a, b, size = corpus.label_order
    return {column: value / length for column, value in values.items()}, sorted((label * a + b) % size for label in of_row)


def gathered(corpus, begin, end, **options):
    slabs = [
        [part.copy() for part in (*values, label_lengths, labels)]
        for values, label_lengths, labels in corpus.slabs(begin, end, **options)
    ]
    lengths, indices, data, label_lengths, labels = (np.concatenate(parts) for parts in zip(*slabs, strict=True))
    X = sp.csr_matrix((data, indices, np.r_[0, np.cumsum(lengths)]), shape=(end - begin, corpus.n_features))
    Y = sp.csr_matrix((np.ones(labels.size), labels, np.r_[0, np.cumsum(label_lengths)]), shape=(end - begin, corpus.n_labels))
    return X, Y.toarray()


@pytest.fixture(scope="module", params=[0.0, 0.02], ids=["long tail", "least share"])
def corpus(request):
    return SyntheticText(7, 3000, 40, request.param)


@pytest.fixture(scope="module")
def rows(corpus):
    return gathered(corpus, 0, N)


def test_rows_of_a_slow_twin(corpus, rows):
    X, Y = rows
    for row in range(60):
        values, labels = slow_row(corpus, row)
        assert X[row].indices.tolist() == list(values)
        assert X[row].data == pytest.approx(list(values.values()), rel=1e-6)
        assert np.flatnonzero(Y[row]).tolist() == labels


def test_rows_do_not_depend_on_slabs(corpus, rows):
    X, Y = gathered(corpus, 150, 901, n_values=1)
    assert (rows[0][150:901] != X).nnz == 0
    assert (rows[1][150:901] == Y).all()


def test_words_and_labels_have_their_expected_frequencies(corpus, rows):
    X, Y = rows
    a, b, size = corpus.label_order
    of_labels = np.empty(size)
    of_labels[(np.arange(size) * a + b) % size] = 1 - np.exp(-corpus.rates)
    of_words = np.exp(-corpus.idf.astype(float))
    for found, share in ((np.bincount(X.indices, minlength=corpus.n_features), of_words), (Y.sum(axis=0), of_labels)):
        assert (np.abs(found - N * share) < 5.5 * np.sqrt(N * share * (1 - share)) + 2).all()


def test_the_first_rows_of_a_larger_file(tmp_path):
    files = {}
    for n in (300, 1000):
        path = tmp_path / f"{n}.h5"
        report = converted("synthetic", Path("text"), path, rows=n, features=("3000",), labels=("40",), seed=7)
        assert (report.rows, report.features, report.labels) == (n, 3000, 40)
        with h5py.File(path) as file:
            files[n] = [file[name][:] for name in ("X/indptr", "X/indices", "X/data", "Y/indptr", "Y/indices", "label_names")]
    for small, large in zip(files[300], files[1000], strict=True):
        assert (small == large[: small.size]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "--features"),
        ({"features": ("3000",)}, "--labels"),
        ({"features": ("99",), "labels": ("2",)}, "--features 99"),
        ({"features": ("500", "6"), "labels": ("2",)}, "--features 500,6"),
        ({"features": ("500",), "labels": ("a",)}, "--labels a"),
        *((SIZES | {"least_positives": value}, f"--least-positives {value}") for value in (0.0, math.nan, 9.0, 0.01, 3.0)),
    ],
)
def test_bad_sizes_are_refused(tmp_path, options, words):
    check_refusal(lambda: converted("synthetic", Path("text"), tmp_path / "x.h5", rows=9, **options), words)
    assert not list(tmp_path.iterdir())
