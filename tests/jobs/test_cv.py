"""`hpcml cv` as a process: the same result on any number of ranks; error messages."""

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
        names = ("mbw", "svm", data / "two.h5", f"{data / 'three.h5'}:label1")
        result = done(standing(n, "cv", *names, "--folds", "4", "--baseline", "svm", "-o", out))
        assert result.stdout.count("mean rank") == 1
        assert "differs from svm" in result.stdout
        found.append((result.stdout, without_seconds(out)))
    assert found[0] == found[1]
    assert len(found[0][1]) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("multinomial-nb", "two.h5:x"), "no label 'x'"),
        (("svm", "sklearn.naive_bayes.ComplementNB", "minus.h5"), "sklearn.naive_bayes.ComplementNB"),
        (("multinomial-nb", "two.h5", "--output", "precious.csv"), "exists already"),
    ],
)
def test_rejects_invalid_arguments(standing, data, arguments, words):
    (data / "precious.csv").write_text("precious")
    paths = [data / word if ".h5" in word or ".csv" in word else word for word in arguments]
    refused(standing(2, "cv", *paths), words)
    assert (data / "precious.csv").read_text() == "precious"
