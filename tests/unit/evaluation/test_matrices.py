"""The public functions about matrices: rows and labels of a dataset, weights of a model, measures of scores."""

import numpy as np
import pytest
import scipy.sparse as sp

import hpcml
from hpcml.errors import DataError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A dataset of two splits and a model of the first."""
    folder, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(3)
    X = sp.random(90, 40, 0.2, "csr", np.float32, random_state=5)
    Y = sp.csr_matrix(rng.random((90, 5)) < [0.5, 0.3, 0.2, 0.1, 0.4], dtype=np.float32)
    splits = ["train" if k % 3 else "test" for k in range(90)]
    dataset = hpcml.Dataset.from_sparse(X, Y, folder / "made.h5", splits=splits)
    hpcml.train("dual", folder / "made.h5", folder / "run")
    yield X, Y, np.array(splits), dataset, hpcml.Model(folder / "run" / "model.h5")
    dataset.file.close()


def test_rows_and_labels_of_a_split(made):
    X, Y, splits, dataset, _ = made
    for split in ("train", "test", "all"):
        chosen = np.flatnonzero(splits == split) if split != "all" else np.arange(90)
        assert (dataset.matrix(split) != X[chosen]).nnz == 0 and (dataset.labels(split) != Y[chosen]).nnz == 0
    assert dataset.matrix("test").dtype == dataset.labels("test").dtype == np.float32


def test_weights_of_all_labels_and_of_some(made):
    model = made[-1]
    np.testing.assert_array_equal(model.weight_matrix().toarray(), model.weights())
    np.testing.assert_array_equal(model.weight_matrix(np.array([3, 1])).toarray(), model.weights(np.array([3, 1])))
    assert model.weight_matrix(np.array([], dtype=int)).shape == (0, 40)


def test_measures_are_those_of_evaluate(made):
    *_, dataset, model = made
    scores = dataset.matrix("test") @ model.weight_matrix().T + model.bias
    found, expected = hpcml.evaluate_scores(scores, dataset.labels("test")), hpcml.evaluate(model.path, dataset.path)
    for name, values in found.values.items():
        np.testing.assert_allclose(values, expected.values[name], rtol=1e-12)
        assert found.macro(name) == pytest.approx(expected.macro(name))
    assert found.micro == pytest.approx(expected.micro) and found.precision_at == pytest.approx(expected.precision_at)


@pytest.mark.parametrize(("scores", "words"), [([[1.0, 2.0]], "expected the same"), ([[np.nan], [1.0]], "not a finite number")])
def test_scores_that_do_not_fit(scores, words):
    with pytest.raises(DataError, match=words):
        hpcml.evaluate_scores(scores, [[0], [1]])
