"""Changes of HDF5 files, and of the archive in a classifier's file, for tables of damage."""

import io
import zipfile

import h5py
import numpy as np


def edit(path, *changes):
    """Make changes of a file. Returns the path."""
    with h5py.File(path, "r+") as file:
        for change in changes:
            change(file)
    return path


def replace(name, change, **more):
    """Replace the values of a dataset by `change(values)`."""

    def damage(file):
        values = file[name][()]
        del file[name]
        file.create_dataset(name, data=change(values), **more)

    return damage


def entry(name, place, value):
    """Set one entry of a dataset, or several."""

    def damage(file):
        file[name][place] = value

    return damage


def attributes(values, of="/"):
    """Set attributes of the file, or of a part."""
    return lambda file: file[of].attrs.update(values)


def remove(name):
    """Take a part away."""
    return lambda file: file.__delitem__(name)


def compressed(*names):
    """Store datasets in chunks, as other programs may."""
    changes = [replace(name, lambda values: values, chunks=True, compression="gzip") for name in names]
    return lambda file: [change(file) for change in changes]


def unpacked(dump):
    """The members of an archive, by name."""
    with zipfile.ZipFile(io.BytesIO(dump)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, compression=zipfile.ZIP_STORED):
    """The archive of these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def archived(change, compression=zipfile.ZIP_STORED):
    """Change the members, a dict of bytes, of the archive in a classifier's file, which stays sound."""

    def changed(values):
        members = unpacked(values.tobytes())
        change(members)
        return np.frombuffer(packed(members, compression), dtype=np.uint8)

    return replace("classifier", changed)
