"""The digest of a file depends on values, types and names, not on bytes, versions, processors and raw input."""

import h5py
import numpy as np
import pytest

import hpcml
from hpcml.check.bits import compute_digest
from hpcml.files.hdf5 import COMPUTED_BY, WRITTEN_BY, stamp


def digest_of(path, change=lambda file: None, is_reversed=False):
    """Write a model in one order or the other, change it, and return its digest."""
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
