"""The shipped digests cover every training, and are compared result by result."""

import h5py
import numpy as np
import pytest

import hpcml
from hpcml.check import bits
from hpcml.check.bits import compute_digest
from hpcml.files.hdf5 import COMPUTED_BY, WRITTEN_BY, stamp
from hpcml.methods.registry import METHODS


def test_every_method_has_shipped_digests():
    names = {bits.name_training(*each) for each in bits.TRAININGS} | {f"tune {bits.name_training(*each)}" for each in bits.TUNED}
    shipped = bits.read_shipped()
    assert shipped.keys() == names | {"convert jsonl", "convert svmlight"}
    assert {method for method, _ in bits.TRAININGS} == METHODS.keys()
    results = {"model", "scores", "measures", "thresholds"}
    assert all(shipped[name].keys() - {"sigmoids", "probabilities"} == results for name in names)


def test_difference_names_the_results():
    expected = {"model": "a", "scores": "b", "measures": "c"}
    assert bits.describe_difference(expected, expected) == ""
    assert bits.describe_difference(expected | {"scores": "x", "measures": "y"}, expected) == "differs: scores, measures"
    assert bits.describe_difference(expected, {"model": "a", "scores": "b"}) == "differs: measures"
    assert bits.describe_difference(expected, None) == "is new"


def test_name_of_a_training_is_its_command_line():
    assert bits.name_training("psbml", {"base": ("tree",), "cycles": 2}) == "psbml --base tree --cycles 2"
    assert bits.name_training("pegasos", {"max_steps": 50, "voted": True}) == "pegasos --max-steps 50 --voted"
    assert bits.find_package("psbml --base linear-svm --cycles 2", bits.EXTERNAL) == "sklearn"
    assert bits.find_package("psbml --base tree --cycles 2", bits.EXTERNAL) is None


def digest_of(path, change=lambda file: None, is_reversed=False):
    parts = {"W": np.arange(6.0, dtype="<f4").reshape(2, 3), "labels/gap": np.array([0.5, -0.0])}
    with h5py.File(path, "w", track_order=is_reversed) as file:
        stamp(file, "model")
        for name in sorted(parts, reverse=is_reversed):
            file[name] = parts[name]
        file["label_names"] = np.array(["a", "b"], dtype=h5py.string_dtype())
        file.attrs["base"] = '{"name": "kernel-nb"}'
        change(file)
    return compute_digest(path)


def test_excludes_bytes_versions_processors_and_raw_input(tmp_path):
    def change(file):
        file.attrs[COMPUTED_BY] = '{"processor": "another"}'
        file.attrs[WRITTEN_BY] = "1.0"
        file.attrs["hpcml-version"] = 99
        file["input/idf"] = np.ones(3)
        file["input"].attrs["weighting"] = "tf-idf"

    expected = digest_of(tmp_path / "a.h5")
    assert digest_of(tmp_path / "b.h5", change, is_reversed=True) == expected
    assert (tmp_path / "a.h5").read_bytes() != (tmp_path / "b.h5").read_bytes()
    with h5py.File(tmp_path / "a.h5") as file:
        assert '"processor"' in file.attrs[COMPUTED_BY] and file.attrs[WRITTEN_BY] == hpcml.__version__


def replaced(name, value):
    def change(file):
        del file[name]
        file[name] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        replaced("labels/gap", np.array([0.5, 0.0])),  # the bit of the sign
        replaced("W", np.arange(6.0).reshape(2, 3)),  # a type
        replaced("W", np.arange(6.0, dtype="<f4").reshape(3, 2)),
        replaced("label_names", np.array(["a", "c"], dtype=h5py.string_dtype())),
        lambda file: file.move("W", "V"),
        lambda file: file.attrs.modify("base", "{}"),
        lambda file: file["labels"].attrs.create("more", 1),
        lambda file: file.create_group("empty"),
        lambda file: file.create_group("inputs"),
    ],
)
def test_includes_all_content(tmp_path, change):
    assert digest_of(tmp_path / "a.h5", change) != digest_of(tmp_path / "b.h5")
