"""Merging words and keys of several runs gives the result of a single run."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcml import mpi
from hpcml.conversion import merging as module
from hpcml.conversion.merging import KeyRuns, Runs, merge_keys, merge_runs

WORD = st.text("abé1\U0001f600", min_size=1, max_size=3)
RUNS = st.lists(st.dictionaries(WORD, st.integers(0, 3), max_size=12), max_size=4)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 2, 2)])
@settings(max_examples=25)
@given(given_runs=RUNS, min_count=st.integers(1, 4))
def test_merging(tmp_path_factory, sizes, given_runs, min_count):
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(("RANGE_WORDS", "CHUNK_WORDS", "SAMPLE"), sizes, strict=True):
            patch.setattr(module, name, size)
        runs, total = Runs(folder), Counter()
        for number, counts in enumerate(given_runs):
            runs.add(list(counts))
            runs.set_counts(number, np.array(list(counts.values()), dtype=np.int64))
            total.update(counts)
        kept = sorted(word for word, count in total.items() if count >= min_count)
        words, sums = merge_runs(mpi.self_comm(), runs, min_count, folder)
        assert words[:] == kept
        assert sums.tolist() == [total[word] for word in kept]
        place = {word: n for n, word in enumerate(kept)}
        for number, counts in enumerate(given_runs):
            assert runs.word_ids(number).tolist() == [*(place.get(word, -1) for word in counts), -1]
        runs.assign_ids(lambda codes: np.array([len(code) for code in codes]))
        for number, counts in enumerate(given_runs):
            assert runs.word_ids(number).tolist() == [*(len(word.encode()) for word in counts), -1]


@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 3, 2)])
@settings(max_examples=25)
@given(added=st.lists(st.dictionaries(st.integers(0, 30), st.integers(1, 3), max_size=12), max_size=5), min_count=st.integers(1, 4))
def test_merging_keys(tmp_path_factory, sizes, added, min_count):
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(("RUN_KEYS", "RANGE_KEYS", "SAMPLE"), sizes, strict=True):
            patch.setattr(module, name, size)
        runs, total = KeyRuns(tmp_path_factory.getbasetemp()), Counter()
        for counts in added:
            runs.add(*(np.array(list(numbers), dtype=np.int64) for numbers in (counts.keys(), counts.values())))
            total.update(counts)
        keys, sums = merge_keys(mpi.self_comm(), runs, min_count)
        assert keys.tolist() == sorted(key for key, count in total.items() if count >= min_count)
        assert sums.tolist() == [total[key] for key in keys.tolist()]
