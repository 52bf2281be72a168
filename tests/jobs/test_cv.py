"""`hpcml cv` as a process: the same on any number of ranks; one sentence for a user's mistake."""

import pytest
from support.jobs import done, refused
from support.make import class_data, dataset
from support.tables import table


@pytest.fixture
def data(tmp_path):
    for name, n_classes in (("two", 2), ("three", 3)):
        X, _, Y = class_data(n_classes, 150, 10, n_classes)
        dataset(tmp_path / f"{name}.h5", abs(X), Y)
    X, _, Y = class_data(2, 60, 5, 2)
    dataset(tmp_path / "minus.h5", X, Y)
    return tmp_path


def without_seconds(path):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in table(path)]


def test_the_same_on_any_number_of_ranks(standing, data):
    found = []
    for n in (1, 3):
        out = data / f"on{n}.csv"
        names = ("mbw", "v-pw", "svm", "multinomial-nb", data / "two.h5", data / "three.h5", f"{data / 'three.h5'}:label1")
        result = done(standing(n, "cv", *names, "--folds", "4", "--baseline", "svm", "-o", out))
        assert result.stdout.count("average rank") == 1
        assert "differs from svm" in result.stdout
        found.append((result.stdout, without_seconds(out)))
    assert found[0] == found[1]
    assert len(found[0][1]) == 12


def test_options_count(standing, data):
    tables = []
    for options in ((), ("--seed", "1"), ("--label", "label2"), ("--in-order",)):
        result = done(standing(0, "cv", "perceptron", data / "three.h5", *options))
        tables.append(result.stdout)
    assert len(set(tables)) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mbv", "two.h5"), "did you mean 'mbw'"),
        (("multinomial-nb", "two.h5", "--split", "dev"), "no split named 'dev'"),
        (("multinomial-nb", "two.h5:x"), "no label 'x'"),
        (("svm", "sklearn.naive_bayes.ComplementNB", "minus.h5"), "refused by sklearn.naive_bayes.ComplementNB"),
        (("multinomial-nb", "two.h5", "--output", "precious.csv"), "exists already"),
    ],
)
def test_cv_refuses_in_one_sentence(standing, data, arguments, words):
    """The other sentences are in tests/unit/crossval."""
    (data / "precious.csv").write_text("precious")
    places = [data / word if ".h5" in word or ".csv" in word else word for word in arguments]
    refused(standing(2, "cv", *places), words)
    assert (data / "precious.csv").read_text() == "precious"


def test_nothing_is_written_of_a_failed_work(standing, data):
    refused(standing(2, "cv", "sklearn.naive_bayes.ComplementNB", data / "minus.h5", "-o", data / "new.csv"))
    assert not list(data.glob("*new.csv*"))
