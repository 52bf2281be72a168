"""Checks of files from strangers: claims are compared with bytes, before anything is read.

HDF5 itself does not do all of it: a damaged heap of strings makes it run forever, and links can lead it to other files.
"""

from __future__ import annotations

import mmap
import os
import struct
from math import prod

import h5py
import numpy as np

from hpcml import mpi

OPEN_SECONDS = 60  # more than any sound file takes to be looked at, on the slowest disk
MAX_PARTS = 10_000
MAX_DEPTH = 4  # groups in groups; ours lie in the root
MAX_CHUNKS = 1 << 20
MAX_PACKED = 1100  # no compression that HDF5 has by itself makes more of a byte
UNWRITTEN = ("/X/data", "/Y/data")  # those of ones are described but never written
SCANNED = 1 << 22  # bytes between the datasets in which heaps of attributes are looked for; they are written first
_STRING = np.dtype([("size", "<u4"), ("heap", "<u8"), ("number", "<u4")])  # a string of variable length, as a file stores it
_HEAP = struct.Struct("<4sB3xQ")
_OBJECT = struct.Struct("<HHIQ")


def check_parts(file: h5py.File) -> None:
    """Raise ValueError (or as h5py) unless every part lies in the file and can be so large.

    Links to other places, external storage and virtual datasets could make us read other files; a claimed size could make us
    allocate any memory. Numbers that pass can be read or mapped whole, strings by `read_strings`, and attributes can be read.
    """
    # HDF5 itself can run for ever on a file that was made for that
    with mpi.time_limit(OPEN_SECONDS, f"{file.filename}: damaged file: HDF5 did not finish reading it within {OPEN_SECONDS} s"):
        if file.userblock_size or file.id.get_create_plist().get_sizes() != (8, 8):
            raise ValueError("addresses are not those of a file of ours")
        size = os.fstat(file.id.get_vfd_handle()).st_size
        parts: list[h5py.Group | h5py.Dataset] = [file]
        ranges, waiting, seen = [(0, 0)], [(file, 0)], {h5py.h5o.get_info(file.id).addr}
        while waiting:
            group, depth = waiting.pop()
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"{group.name.rstrip('/')}/{name} is a link, not a part of the file")
                part = group[name]
                address = h5py.h5o.get_info(part.id).addr
                if address in seen:
                    raise ValueError(f"{part.name} has two names")
                seen.add(address)
                if len(seen) > MAX_PARTS or depth == MAX_DEPTH:
                    raise ValueError("it has too many parts")
                if isinstance(part, h5py.Group):
                    waiting.append((part, depth + 1))
                elif isinstance(part, h5py.Dataset):
                    ranges.append(_check_dataset(part, size))
                else:
                    continue
                parts.append(part)
        if size:  # the heaps of attributes lie between the datasets
            left = SCANNED
            with mmap.mmap(file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ) as content:
                ranges.sort()
                for (_, begin), (end, _) in zip(ranges, [*ranges[1:], (size, 0)], strict=True):
                    end = min(end, begin + left)
                    left -= max(0, end - begin)
                    while (begin := content.find(b"GCOL", begin, end)) >= 0:
                        begin = _check_heap(content, begin) if begin % 8 == 0 else begin + 4
        for part in parts:
            attributes(part)  # HDF5 keeps what it has read: who reads them again meets no heap that was not read here


def read_strings(data: h5py.Dataset, begin: int = 0, end: int | None = None) -> list[str]:
    """Entries begin..end of strings. Raises ValueError, or as h5py, if they are damaged."""
    if data.ndim != 1:
        raise ValueError(f"{data.name} is no list")
    end = data.shape[0] if end is None else min(end, data.shape[0])
    if begin >= end:
        return []
    strings = h5py.check_string_dtype(data.dtype)
    if strings is not None and strings.length is None:
        with mmap.mmap(data.file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ) as content:
            stored = np.frombuffer(content, _STRING, end - begin, data.id.get_offset() + begin * _STRING.itemsize).copy()
            if int(stored["size"].sum(dtype=np.uint64)) > len(content):
                raise ValueError(f"{data.name} claims longer strings than the file has")
            end_of_last = 0
            for place in np.unique(stored["heap"]).tolist():
                if 0 < place < end_of_last:  # 0: an empty string
                    raise ValueError("strings lie in one another")
                end_of_last = _check_heap(content, place) if place else 0
    found: list[str] = data.asstr()[begin:end].tolist()
    if any("\0" in string for string in found):  # of a fixed length; those of a variable one end there
        raise ValueError(f"{data.name} has a name with a NUL in it")
    return found


def attributes(item: h5py.Group) -> dict[str, object]:
    """A part's attributes: texts, numbers, arrays of numbers; else ValueError."""
    found = dict(item.attrs)
    for name, value in found.items():
        if isinstance(value, str):
            text_of(item, name)
        elif np.asarray(value).dtype.kind not in "biuf":
            raise ValueError(f"attribute {name} is neither a text nor a number")
    return found


def text_of(item: h5py.Group, name: str) -> str:
    """An attribute that is a writable text. Raises KeyError without one, else ValueError."""
    value = item.attrs[name]
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"attribute {name} is no text")
    value.encode()
    return value


def _check_dataset(part: h5py.Dataset, size: int) -> tuple[int, int]:
    """Return the range of a dataset's bytes (0, 0: not in one piece). Raises ValueError if a file of `size` cannot hold them."""
    if part.is_virtual or part.external:
        raise ValueError(f"{part.name} points to other files")
    if part.shape is None:
        raise ValueError(f"{part.name} is empty")
    strings = h5py.check_string_dtype(part.dtype)
    if part.dtype.hasobject and strings is None:
        raise ValueError(f"{part.name} holds neither numbers nor strings")
    variable = strings is not None and strings.length is None
    item = _STRING.itemsize if variable else part.dtype.itemsize
    claimed, offset = prod(map(int, part.shape)) * item, part.id.get_offset()
    if part.chunks is not None:
        chunk = prod(map(int, part.chunks)) * item
        n_chunks = prod(-(-int(n) // int(m)) for n, m in zip(part.shape, part.chunks, strict=True))
        # HDF5 looks at every chunk to tell what is stored, so it is only asked about as many as can be there
        fits = not variable and n_chunks <= min(size // 8, MAX_CHUNKS) and max(claimed, chunk) <= MAX_PACKED * size
        fits = claimed == 0 or (fits and max(claimed, chunk) <= MAX_PACKED * min(size, part.id.get_storage_size()))
    elif offset is not None:
        fits = offset + claimed <= size
    elif part.id.get_storage_size() == 0:
        fits = claimed == 0 or (not variable and (claimed <= size or part.name in UNWRITTEN))
    else:  # in the header
        fits = not variable and claimed <= size
    if not fits:
        raise ValueError(f"{part.name} claims {claimed} bytes, more than the file has for it")
    return (0, 0) if offset is None else (offset, offset + claimed)


def _check_heap(content: mmap.mmap, place: int) -> int:
    """Where the heap of strings at `place` ends. ValueError unless objects fill it."""
    if place + _HEAP.size > len(content):
        raise ValueError("strings lie behind the end of the file")
    name, version, size = _HEAP.unpack_from(content, place)
    at, end = place + _HEAP.size, place + int(size)
    if name != b"GCOL" or version != 1 or end > len(content) or at > end:
        raise ValueError("the strings are damaged")
    while at + _OBJECT.size <= end:
        number, _, _, size = _OBJECT.unpack_from(content, at)
        at += _OBJECT.size + -(-size // 8) * 8 if number else size  # number 0 is the free rest
        if at > end or (number == 0 and size < _OBJECT.size):
            raise ValueError("the strings are damaged")
    return end
