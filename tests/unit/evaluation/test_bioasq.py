"""BioASQ's measures against their definitions, and what a user gets."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support import make
from support.oracles_bioasq import flat, lca

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.evaluation.bioasq import FLAT, evaluate_bioasq
from hpcml.evaluation.hierarchy import Hierarchy
from hpcml.log import Log
from hpcml.model.linear import Model

SELF, QUIET = mpi.self_comm(), Log(1)
PLACES = {
    "D1": ("A01",),
    "D2": ("A01.100", "B01.200"),
    "D3": ("A01.100.300",),
    "D4": ("B01",),
    "D5": ("B01.200.400", "A01.500"),
    "D6": (),
    "D7": ("A01.900.100",),  # nothing is at A01.900
    "D8": ("C01.100", "C01"),
}
LABELS = sorted([*PLACES, "D9"])  # D9 is not in the file


@st.composite
def thesauri(draw):
    places = {"T1": ("A01",), "T2": ("B01",)}
    for number in range(draw(st.integers(1, 10))):
        parents = draw(st.lists(st.sampled_from([place for all_of in places.values() for place in all_of]), min_size=1, max_size=3))
        places[f"D{number}"] = tuple(sorted({f"{parent}.{number:03d}" for parent in parents}))
    sets = st.sets(st.sampled_from(sorted(places)), max_size=5)
    return places, draw(sets), draw(sets)


@settings(max_examples=80, deadline=None)
@given(thesauri(), st.randoms(use_true_random=False))
def test_ancestors_of_any_thesaurus(found, random):
    places, true, given_ = found
    true, given_ = sorted(true), sorted(given_)
    expected = lca(true, given_, places)
    assert Hierarchy(places).measures(true, given_) == pytest.approx(expected)
    for names in (true, given_, mixed := list(places.items())):
        random.shuffle(names)
    assert Hierarchy(dict(mixed)).measures(true, given_) == pytest.approx(expected), "an order matters"


def test_ancestors_by_hand():
    tree = Hierarchy(PLACES)
    assert tree.measures(["D3"], ["D3"]) == (1, 1, 1)
    # the least way is D3 - D2: what is true is {D3, D2}, what is given {D2}
    assert tree.measures(["D3"], ["D2"]) == (1, 1 / 2, 2 / 3)
    # D1 - /A - root - /B - D4: two nodes below the root on each side
    assert tree.measures(["D1"], ["D4"]) == (1 / 3, 1 / 3, 1 / 3)
    assert tree.measures(["D6"], ["D9"]) == (1 / 2, 1 / 2, 1 / 2)
    assert tree.measures([], ["D9"]) == (0, 0, 0)
    # D2 is above D3 and is left out: {D3} on both sides
    assert tree.measures(["D3", "D2"], ["D3"]) == (1, 1, 1)
    # D1 is right above D5, D4 above D2 above D5, and both must be joined: {D5, D1, D2, D4} and {D1, D4}
    assert tree.measures(["D5"], ["D1", "D4"]) == (1, 2 / 4, 4 / 6)


def files(folder, seed, threshold=0.0):
    rng = np.random.default_rng(seed)
    X, names = rng.standard_normal((40, 6)), [*LABELS[:6], "X1"]
    X[7] = 0
    Y = rng.random((40, 9)) < 0.25
    Y[7] = False
    W = rng.standard_normal((7, 6))
    data = make.dataset(folder / "data.h5", X.astype(np.float32), sp.csr_matrix(Y.astype(float)), label_names=LABELS)
    model = Model(make.model(folder / "model.h5", W, label_names=names)).with_threshold(threshold)
    scores = X.astype(np.float32).astype(float) @ W.T
    predicted = [{names[k] for k in np.flatnonzero(row > threshold)} for row in scores]
    return model, data, [{LABELS[k] for k in np.flatnonzero(row)} for row in Y], predicted


def terms(folder, places=PLACES):
    path = folder / "terms.tsv"
    path.write_text("".join(f"{ui}\tname {ui}\t{';'.join(numbers)}\n" for ui, numbers in places.items()))
    return path


@pytest.mark.parametrize("seed", range(2))
def test_measures_are_those_of_sets(tmp_path, seed):
    model, data, true, predicted = files(tmp_path, seed, threshold=0.5)
    with DataFile(data) as rows:
        found = evaluate_bioasq(SELF, model, rows, "all", terms(tmp_path), QUIET)
        plain = evaluate_bioasq(SELF, model, rows, "all", None, QUIET)
    of_rows = [lca(sorted(t), sorted(g), PLACES) for t, g in zip(true, predicted, strict=True) if t | g]
    expected = flat(true, predicted) | dict(zip(("LCA-P", "LCA-R", "LCA-F"), np.mean(of_rows, axis=0), strict=True))
    assert found.measures == pytest.approx(expected, rel=1e-12)
    assert list(plain.measures) == list(FLAT)
    assert plain.measures == {name: found.measures[name] for name in FLAT}
    assert found.n_judged == sum(bool(t | g) for t, g in zip(true, predicted, strict=True)) < found.n_rows
    assert found.n_unknown == len(set().union(*true) & {"D7", "D8", "D9"})
    assert found.n_without_place == len(set().union(*true, *predicted) & {"D6", "D9", "X1"})


def test_report(tmp_path):
    model, data, _, _ = files(tmp_path, 0)
    with DataFile(data) as rows:
        found = evaluate_bioasq(SELF, model, rows, "all", terms(tmp_path), QUIET)
        text = str(found)
        found.write_json(tmp_path / "out.json")
        with pytest.raises(ConfigError, match="no tree numbers"):
            evaluate_bioasq(SELF, model, rows, "all", terms(tmp_path, {"D1": ()}), QUIET)
        with pytest.raises(ConfigError, match="no tree number of any label"):
            evaluate_bioasq(SELF, model, rows, "all", terms(tmp_path, {"Z1": ("A01",)}), QUIET)
    assert f"{found.measures['LCA-F']:.4f}" in text
    assert "MiF" in text
    assert "1 row without true and without predicted labels" in text
    assert json.loads((tmp_path / "out.json").read_text())["measures"] == found.measures
