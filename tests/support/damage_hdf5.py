"""Damage of bytes, of HDF5 files by deliberate changes, and of the archive in a classifier's file (for `damage`)."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import h5py
import numpy as np

from support.edits import packed

HUGE = (0, 1, -1, 2, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1)
LARGE = 10**6  # entries of what a change before this one has made huge, and is left alone
IMPOSSIBLE = (TypeError, ValueError, OSError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError)  # a change, here


# Bytes -------------------------------------------------------------------------------------------------------------------


def damage_bytes(rng, raw):
    """Some bytes of `raw` changed, lost or added: (bytes, what was done)."""
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


# HDF5 --------------------------------------------------------------------------------------------------------------------

DTYPES = ("<f8", "<f4", "<f2", "<i1", "<i4", "<i8", ">i8", ">f4", "<u8", "?", "S8", "c8", "V3")


def everything(file):
    """The names of all groups and datasets, the root included."""
    names = ["/"]
    file.visit(names.append)
    return names


def damage_hdf5(rng, file):
    """One deliberate change of an open HDF5 file: what was done."""
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
    """Points into another file, a secret of the reader's perhaps, by one of HDF5's ways."""
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
    """A claimed size of which nothing, or hardly anything, is in the file."""
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


# The archive in a classifier ---------------------------------------------------------------------------------------------

BOMB = 1 << 27
FOREIGN = (
    "os.system", "builtins.eval", "functools.partial", "subprocess.Popen", "pickle.loads", "numpy.load",
    "sklearn.svm._classes.SVC",
)  # fmt: skip


def damage_archive(rng, file):
    """One change of the archive in a classifier's file: what was done."""
    if file["classifier"].size > LARGE:
        return "archive: too large to change"
    with zipfile.ZipFile(io.BytesIO(file["classifier"][:].tobytes())) as archive:
        if any(member.file_size >= BOMB for member in archive.infolist()):
            return "archive: a bomb already"
        members = {name: archive.read(name) for name in archive.namelist()}
    name, compression = rng.choice(list(members)), zipfile.ZIP_STORED
    arrays = [name for name in members if name.endswith(".npy")]
    how = rng.choice(("schema", "schema", "schema", "bytes", "array", "array", "array", "bomb", "lost", "json"))
    if how == "schema":
        schema = json.loads(members["schema.json"])
        what = _change_leaf(rng, schema)
        members["schema.json"] = json.dumps(schema).encode()
    elif how == "array" and arrays:
        name = rng.choice(arrays)
        members[name], what = _change_array(rng, members[name])
    elif how == "bomb":
        name, compression = rng.choice(arrays or [name]), zipfile.ZIP_DEFLATED
        members[name] = members[name][:128] + bytes(BOMB)
        what = name
    elif how == "lost":
        del members[name]
        what = name
    elif how == "json":
        members["schema.json"] = rng.choice((b"", b"[" * 100_000, b"null", b'{"protocol": 1}', b"\xff"))
        what = ""
    else:
        members[name], what = damage_bytes(rng, members[name])
    del file["classifier"]
    file["classifier"] = np.frombuffer(packed(members, compression), dtype=np.uint8)
    return f"archive: {how} {what}"


def _change_leaf(rng, tree):
    """Change one part of a JSON value in place: what was done."""
    places = []

    def walk(node, path):
        for key, part in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key, [*path, key]))
            if isinstance(part, (dict, list)):
                walk(part, [*path, key])

    walk(tree, [])
    node, key, path = rng.choice(places)
    types = [place for place in places if place[1] in ("__class__", "__module__", "__loader__")]
    how = rng.choice(("delete", "number", "text", "null", "list", "foreign", "other"))
    if how == "delete":
        del node[key]
    elif how == "foreign":
        node, _, path = rng.choice(types)
        node["__module__"], _, node["__class__"] = rng.choice(FOREIGN).rpartition(".")
        if rng.random() < 0.5:
            node["__loader__"] = rng.choice(
                ("FunctionNode", "TypeNode", "ObjectNode", "PartialNode", "MethodNode", "ReduceNode", "OperatorFuncNode")
            )
    else:
        other = rng.choice(places)
        copy = json.loads(json.dumps(other[0][other[1]]))
        number = rng.choice(HUGE)
        node[key] = {"number": rng.choice((number, str(number))), "text": "x", "null": None, "list": [], "other": copy}[how]
    return f"{'.'.join(map(str, path))[-60:]} {how}"


def _change_array(rng, content):
    """A saved array with another header or other values: (bytes, what was done)."""
    array, out = np.load(io.BytesIO(content)), io.BytesIO()
    how = rng.choice(("claim", "objects", "shape", "type", "values", "values", "longer"))
    if how == "claim":
        np.lib.format.write_array_header_1_0(
            out, {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": (rng.choice(HUGE[5:]),)}
        )
        return out.getvalue() + content[128:], how
    if how == "objects":
        np.save(out, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
        return out.getvalue(), how
    if how == "shape":
        array = array.reshape(-1)[: rng.randrange(array.size + 1)]
    elif how == "longer":
        array = np.concatenate([array.reshape(-1)] * 2).reshape(-1, *array.shape[1:]) if array.size else np.zeros(5, array.dtype)
    elif how == "type":
        array = array.astype(rng.choice(("<f8", "<i8", "<f4", "<i4", "U5"))) if array.dtype.names is None else np.zeros(array.shape)
    elif array.size:
        array = array.copy()
        field = rng.choice(array.dtype.names) if array.dtype.names else None
        flat = (array if field is None else array[field]).reshape(-1)
        kind = flat.dtype.kind
        value = rng.choice(HUGE[:8]) if kind in "iu" else rng.choice((np.nan, np.inf, -1e300, 7.0))
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.asarray(value).astype(flat.dtype) if kind in "iuf" else flat[0]
    np.save(out, array)
    return out.getvalue(), how
