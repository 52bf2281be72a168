"""Short calls of `convert` on one or several ranks, and readers of the datasets."""

import json
from itertools import pairwise
from pathlib import Path

import h5py
import pytest
import scipy.sparse as sp

from hpcml import mpi
from hpcml.conversion.convert import convert
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import find_source, options_class
from hpcml.errors import HpcmlError
from hpcml.log import Log
from support.make import by_one_rank


def options_of(source, given):
    return ConvertOptions(**vars(options_class(find_source(source).options)(**given)))


def converted(source, inputs, output, told=False, **options):
    inputs = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    return convert(mpi.self_comm(), source, inputs, output, options_of(source, options), True, Log(0 if told else 1))


def convert_on(comm, source, inputs, output, **options):
    return convert(comm, source, inputs, output, options_of(source, options), False, Log(1))


def converted_alike(comm, source, inputs, folder, **options):
    report = convert_on(comm, source, inputs, folder / "together.h5", **options)
    alone = by_one_rank(comm, lambda: convert_on(mpi.self_comm(), source, inputs, folder / "alone.h5", **options))
    assert (folder / "together.h5").read_bytes() == (folder / "alone.h5").read_bytes()
    return report, alone, folder / "together.h5"


def made(folder, source, content, name="data", **options):
    given, output = folder / f"{name}.{source}", folder / f"{name}.h5"
    if isinstance(content, list):
        content = "".join(json.dumps(document) + "\n" for document in content)
    given.write_bytes(content if isinstance(content, bytes) else content.encode())
    return converted(source, given, output, **options), output


def matrix(path, name="X"):
    with h5py.File(path) as file:
        group = file[name]
        return sp.csr_matrix((group["data"][:], group["indices"][:], group["indptr"][:]), group.attrs["shape"]).toarray()


def strings(path, name):
    with h5py.File(path) as file:
        return file[name].asstr()[:].tolist() if name in file else None


def label_sets(path, matrix="Y", names="label_names"):
    with h5py.File(path) as file:
        if matrix not in file:
            return None
        labels, indptr, indices = file[names].asstr()[:], file[matrix]["indptr"][:], file[matrix]["indices"][:]
        return [labels[indices[a:b]].tolist() for a, b in pairwise(indptr)]


def check_refusal(call, *words):
    with pytest.raises(HpcmlError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and all(word in message for word in words), message
