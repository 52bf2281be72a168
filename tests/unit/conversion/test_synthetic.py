"""Synthetic points: classes, positions and seeds."""

import math
from pathlib import Path

import h5py
import numpy as np
import pytest
from anndata.io import read_elem
from scipy.spatial.distance import pdist
from support.converted import check_refusal, converted

from hpcml.conversion.synthetic import GENERATORS, make_points
from hpcml.data.dataset import DataFile

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


def test_points_without_a_positive_one_are_refused(tmp_path):
    seed = next(seed for seed in range(99) if not make_points("circle", seed, ROWS[:1]).positive.any())
    check_refusal(lambda: make(tmp_path, "circle", rows=1, seed=seed), "--rows")
