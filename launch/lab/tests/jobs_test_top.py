"""`hpcml predict --top` of a model of many labels: the best of all its scores, the same bytes on any number of ranks."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from support import make

from hpcml.evaluation.bounds import LEAST_LABELS


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of data and of a sparse model, whose labels a quarter of are there twice."""
    folder, rng = tmp_path_factory.mktemp("many"), np.random.default_rng(0)
    n_labels = LEAST_LABELS + 100
    X = sp.random(50, 90, 0.2, "csr", dtype=np.float32, random_state=rng, data_rvs=rng.random)
    X.data[X.indptr[7] : X.indptr[8]] *= -1
    W = rng.exponential(1, (n_labels, 90)) * (rng.random((n_labels, 90)) < 0.02)
    W[::1000] = 3 * rng.standard_normal(W[::1000].shape)
    W[2::4] = W[3::4]
    data = make.dataset(folder / "data.h5", X, np.eye(50, 3))
    return data, make.model(folder / "model.h5", W, np.full(n_labels, -1.0), precision="<f4", sparse=True)


def test_the_best_of_many_labels(files, standing, tmp_path):
    data, model = files
    outputs = {n: tmp_path / f"{n}.h5" for n in (1, 3)}
    for n, output in outputs.items():
        assert standing(n, "predict", model, data, "-o", output, "--split", "all", "--top", "4").returncode == 0
    assert outputs[1].read_bytes() == outputs[3].read_bytes()
    assert standing(1, "predict", model, data, "-o", tmp_path / "all.h5", "--split", "all").returncode == 0
    with h5py.File(outputs[1]) as best, h5py.File(tmp_path / "all.h5") as everything:
        scores = everything["scores"][:]
        labels = np.argsort(-scores, axis=1, kind="stable")[:, :4]
        assert best["top/labels"][:].tolist() == labels.tolist()
        assert best["top/scores"][:].tobytes() == np.take_along_axis(scores, labels, axis=1).tobytes()
