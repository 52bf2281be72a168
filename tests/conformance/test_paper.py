"""The paper's figures on real corpora: iterations near Table 3's, measures within 0.005 of LIBLINEAR's on the same objective."""

import importlib.util
from pathlib import Path

import pytest
from support.converted import converted
from support.training import train

TOPICS = ("earn", "acq", "money-fx", "grain", "crude", "trade", "interest", "wheat", "ship", "corn")
BENCH = Path(__file__).parents[2] / "launch" / "bench" / "compare_liblinear.py"
# Corpus, labels, bounds of the mean iterations (the paper's: Reuters 168.6, Newsgroups 173.4).
CORPORA = {"reuters21578": (TOPICS, 150, 190), "20newsgroups": ((), 150, 190)}


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("compare_liblinear", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


@pytest.mark.parametrize("corpus", sorted(CORPORA))
def test_probe_on_the_papers_corpora(data_dir, tmp_path, compare, corpus):
    labels, low, high = CORPORA[corpus]
    data = converted("jsonl", data_dir / f"{corpus}.jsonl.xz", tmp_path / "data.h5").output
    report = train("probe", None, data, tmp_path / "run", {"label": labels, "bias": False})
    assert low <= report.mean_steps <= high
    figures = compare(data, tmp_path / "run")
    assert abs(figures["map"]["difference"]) < 0.005
    assert abs(figures["break_even"]["difference"]) < 0.005
    assert figures["objective"]["largest_relative_error_of_reported_f"] < 1e-6
    assert figures["objective"]["probe"] < 1.05 * figures["objective"]["liblinear"]
