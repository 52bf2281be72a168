"""Changes of HDF5 files, and of the archive in a classifier's file, for tables of damage."""

import io
import zipfile

import h5py
import numpy as np


def edit(path, *changes):
    with h5py.File(path, "r+") as file:
        for change in changes:
            change(file)
    return path


def replace(name, change, **more):
    def damage(file):
        values = file[name][()]
        del file[name]
        file.create_dataset(name, data=change(values), **more)

    return damage


def entry(name, place, value):
    def damage(file):
        file[name][place] = value

    return damage


def attributes(values, of="/"):
    return lambda file: file[of].attrs.update(values)


def remove(name):
    return lambda file: file.__delitem__(name)


def compressed(*names):
    changes = [replace(name, lambda values: values, chunks=True, compression="gzip") for name in names]
    return lambda file: [change(file) for change in changes]


def unpacked(dump):
    with zipfile.ZipFile(io.BytesIO(dump)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def archived(change, compression=zipfile.ZIP_STORED):
    def changed(values):
        members = unpacked(values.tobytes())
        change(members)
        return np.frombuffer(packed(members, compression), dtype=np.uint8)

    return replace("classifier", changed)
