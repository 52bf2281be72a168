"""Damage of bytes, of HDF5 files by deliberate changes (for `damage`)."""

import gzip
from pathlib import Path

import h5py
import numpy as np

HUGE = (0, 1, -1, 2, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1)
LARGE = 10**6  # entries of what a change before this one has made huge, and is left alone
IMPOSSIBLE = (TypeError, ValueError, OSError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError)  # a change, here


def damage_bytes(rng, raw):
    raw = bytearray(raw)
    place, size = rng.randrange(len(raw)), rng.choice((1, 2, 8, 64, 700))
    kind = rng.choice(("flip", "set", "flips", "truncate", "insert", "delete", "repeat", "zero", "fill", "word", "swap"))
    if kind in ("flip", "flips"):
        for _ in range(1 if kind == "flip" else 8):
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    elif kind == "set":
        raw[place] = rng.randrange(256)
    elif kind == "truncate":
        del raw[place:]
    elif kind == "insert":
        raw[place:place] = rng.randbytes(size)
    elif kind == "delete":
        del raw[place : place + size]
    elif kind == "repeat":
        raw[place:place] = raw[place : place + size]
    elif kind in ("zero", "fill"):
        size = min(size, len(raw) - place)
        raw[place : place + size] = (b"\0" if kind == "zero" else b"\xff") * size
    elif kind == "word":
        place, width = place // 8 * 8, rng.choice((1, 2, 4, 8))
        raw[place : place + width] = (rng.choice(HUGE) % 2 ** (8 * width)).to_bytes(width, "little")
    elif kind == "swap":
        other = rng.randrange(len(raw))
        size = min(size, len(raw) - max(place, other))
        raw[place : place + size], raw[other : other + size] = raw[other : other + size], raw[place : place + size]
    return bytes(raw), f"{kind} at {place}"


DTYPES = ("<f8", "<f4", "<f2", "<i1", "<i4", "<i8", ">i8", ">f4", "<u8", "?", "S8", "c8", "V3")


def everything(file):
    names = ["/"]
    file.visit(names.append)
    return names


def damage_hdf5(rng, file):
    names = everything(file)
    arrays = [name for name in names if isinstance(file[name], h5py.Dataset) and (file[name].size or 0) <= LARGE]
    attributes = [(name, key) for name in names for key in file[name].attrs]
    if attributes and rng.random() < 0.3:
        name, key = rng.choice(attributes)
        return f"{name}@{key}: {_change_attribute(rng, file[name], key)}"
    name = rng.choice(arrays)
    how, change = rng.choice(list(CHANGES.items()))
    if how == "delete":
        name = rng.choice(names[1:])
    try:
        change(rng, file, name)
    except IMPOSSIBLE as error:  # this change is not possible here
        return f"{name}: {how} failed ({type(error).__name__})"
    return f"{name}: {how}"


def _change_attribute(rng, item, key):
    value = item.attrs[key]
    choices = {
        "delete": None,
        "text": "x",
        "empty text": "",
        "no UTF-8": np.bytes_(b"\xff\xfe"),
        "number": rng.choice(HUGE),
        "real": rng.choice((np.nan, np.inf, 0.5)),
        "empty": h5py.Empty("f4"),
        "array": np.arange(5),
        "long array": np.zeros(7000),
        "strings": ["a", "b"],
        "long text": "y" * 60_000,
        "reference": item.ref,
        "record": np.zeros(2, dtype=[("a", "<i4"), ("b", "<f8")]),
        "lists": h5py.vlen_dtype(np.int32),
    }
    if isinstance(value, np.ndarray) and value.size:
        choices["entry"] = np.where(np.arange(value.size) == rng.randrange(value.size), rng.choice(HUGE), value)
    how = rng.choice(list(choices))
    del item.attrs[key]
    if how == "lists":
        item.attrs.create(key, np.array([np.arange(3, dtype=np.int32)] * 2, dtype=object), dtype=choices[how])
    elif how != "delete":
        item.attrs[key] = choices[how]
    return how


def _replace(file, name, **how):
    old = file[name]
    shape, dtype = old.shape, old.dtype
    values = old[()] if old.size <= LARGE else None
    attrs = dict(old.attrs)
    del file[name]
    how = {"shape": shape, "dtype": dtype} | how
    if how.get("data", 0) is None:
        how["data"] = values
        del how["shape"]
    new = file.create_dataset(name, **how)
    for key, value in attrs.items():
        new.attrs[key] = value


def _values(rng, file, name):
    data = file[name]
    if data.dtype.hasobject:
        words = ("", "x" * 10**6, b"\xff\xfe", "a b c", "same", "a\nb", "0")
        data[rng.randrange(data.size) if rng.random() < 0.5 else slice(None)] = rng.choice(words)
        return
    values = data[()]
    place = rng.randrange(values.shape[0])
    how = rng.choice(("set", "set", "swap", "reverse", "equal", "end"))
    if how == "set":
        values[place] = (
            rng.choice(HUGE[:9] if values.dtype.itemsize < 8 else HUGE)
            if values.dtype.kind == "i"
            else rng.choice((np.nan, np.inf, -1e38, 7))
        )
    elif how == "swap":
        other = rng.randrange(values.shape[0])
        values[[place, other]] = values[[other, place]]
    elif how == "reverse":
        values = values[::-1]
    elif how == "equal":
        values[:] = values[place]
    else:
        values[-1] = values[-1] + rng.choice((1, -1))
    data[...] = values


def _wrong_shape(rng, file, name):
    n = file[name].shape[0]
    _replace(file, name, shape=rng.choice(((), (n + 1,), (max(0, n - 1),), (0,), (n, 1), (1, n), (n, 2), (n, 0))))


def _elsewhere(rng, file, name):
    other = Path(file.filename).with_name("secret.h5")
    shape, dtype = file[name].shape, file[name].dtype
    with h5py.File(other, "w") as secret:
        secret["secret"] = np.zeros(shape, dtype="<i8" if dtype.hasobject else dtype)
    how = rng.choice(("link", "storage", "virtual", "soft", "circle"))
    group = rng.choice([name, name.split("/")[0]])
    if how == "storage":
        return _replace(file, name, dtype="<i8" if dtype.hasobject else dtype, external=[(str(other), 2048, h5py.h5f.UNLIMITED)])
    if how == "virtual":
        layout = h5py.VirtualLayout(shape, "<i8" if dtype.hasobject else dtype)
        layout[...] = h5py.VirtualSource(other, "secret", shape)
        del file[name]
        file.create_virtual_dataset(name, layout)
    elif how == "link":
        del file[group]
        file[group] = h5py.ExternalLink(other, "secret" if group == name else "/")
    elif how == "soft":
        del file[group]
        file[group] = h5py.SoftLink(rng.choice(("/W", "/X/indices", "/nowhere", f"/{group}", "/")))
    else:
        del file[group]
        file[group] = file["/"]


def _sparse_file(rng, file, name):
    huge = rng.choice((2**20, 2**28, 2**31, 2**36, 2**45))
    data = file[name]
    dtype = data.dtype
    rest = data.shape[1:]
    how = rng.choice(("contiguous", "chunked", "packed"))
    if how == "contiguous":
        _replace(file, name, shape=(huge, *rest))
        return
    chunk = min(huge, 2 ** rng.choice((10, 20, 26)))
    kind = "<i8" if dtype.hasobject and how == "packed" else dtype
    _replace(file, name, shape=(huge, *rest), dtype=kind, chunks=(chunk, *rest), compression="gzip" if how == "packed" else None)
    if how == "packed":
        file[name].id.write_direct_chunk(
            (0,) * (1 + len(rest)), gzip.zlib.compress(bytes(min(chunk * np.dtype(kind).itemsize, 2**24)))
        )


CHANGES = {
    "delete": lambda rng, file, name: file.__delitem__(name),
    "values": _values,
    "more values": _values,
    "shape": _wrong_shape,
    "type": lambda rng, file, name: _replace(file, name, dtype=rng.choice(DTYPES)),
    "objects": lambda rng, file, name: _replace(
        file, name, dtype=rng.choice((h5py.ref_dtype, h5py.vlen_dtype("<i4"), h5py.string_dtype()))
    ),
    "huge": _sparse_file,
    "chunked": lambda rng, file, name: _replace(file, name, data=None, chunks=True),
    "packed": lambda rng, file, name: _replace(file, name, data=None, compression="gzip", shuffle=True),
    "elsewhere": _elsewhere,
    "group": lambda rng, file, name: (file.__delitem__(name), file.create_group(name)),
    "named type": lambda rng, file, name: (file.__delitem__(name), file.__setitem__(name, np.dtype("<i8"))),
    "null": lambda rng, file, name: (file.__delitem__(name), file.__setitem__(name, h5py.Empty("<f4"))),
    "other object": lambda rng, file, name: (file.__delitem__(name), file.__setitem__(name, file[rng.choice(everything(file))])),
}
