"""Progress counts labels by their costs."""

import numpy as np
import pytest
from support.make import dataset, random_data
from support.training import train

from hpcml.log import Progress

N_ROWS, N_LABELS = 60, 7


@pytest.mark.parametrize(("method", "costs"), [("elastic-net", lambda n: (n + 1) ** 0.4), ("liblinear", lambda n: n**0.25)])
def test_progress_counts_labels_by_their_costs(tmp_path, monkeypatch, method, costs):
    X, _ = random_data(0, N_ROWS, 12, 1)
    n_positive = np.array([3, 40, 0, 12, 60, 1, 7])  # the third and the fifth are not trained
    data = dataset(tmp_path / "data.h5", X, np.arange(N_ROWS)[:, None] < n_positive)
    shown = {}
    monkeypatch.setattr(Progress, "update", lambda self, done, note, share: shown.setdefault(done, share))
    train(method, None, data, tmp_path / "run", min_positives=0)
    trained = np.sort(n_positive[(n_positive > 0) & (n_positive < N_ROWS)])[::-1]  # the costly ones come first
    expected = np.cumsum(costs(trained)) / costs(trained).sum()
    assert {done: share for done, share in shown.items() if done > 2} == pytest.approx(
        dict(zip(range(3, 8), expected, strict=True))
    )
