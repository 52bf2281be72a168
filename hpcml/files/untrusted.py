"""Checks of HDF5 files from untrusted sources: claimed sizes are compared with the file before anything is read.

HDF5 does not check everything: it loops endlessly on a damaged heap of strings, and follows links to other files.
"""

import mmap
import os
import struct
from math import prod

import h5py
import numpy as np

from hpcml import mpi

OPEN_SECONDS = 60  # more than checking any sound file takes on the slowest disk
MAX_PARTS = 10_000
MAX_DEPTH = 4  # of nested groups; hpcml's are in the root
MAX_CHUNKS = 1 << 20
MAX_PACKED = 1100  # largest compression ratio of HDF5's built-in filters
UNWRITTEN = ("/X/data", "/Y/data")  # of matrices of ones, declared but never written
SCANNED = 1 << 22  # bytes between datasets that are searched for heaps of attributes, which are written first
_STRING = np.dtype([("size", "<u4"), ("heap", "<u8"), ("number", "<u4")])  # a variable-length string as stored in a file
_HEAP = struct.Struct("<4sB3xQ")
_OBJECT = struct.Struct("<HHIQ")


def check_parts(file: h5py.File) -> None:
    """Raise ValueError (or as h5py) unless all parts are in the file, without links, and their claimed sizes are possible."""
    # HDF5 can loop endlessly on a crafted file.
    with mpi.time_limit(OPEN_SECONDS, f"{file.filename}: damaged file: HDF5 did not finish reading it within {OPEN_SECONDS} s"):
        if file.userblock_size or file.id.get_create_plist().get_sizes() != (8, 8):
            raise ValueError("its addresses are not in the format of hpcml files")
        size = os.fstat(file.id.get_vfd_handle()).st_size
        parts: list[h5py.Group | h5py.Dataset] = [file]
        ranges, open_groups, addresses = [(0, 0)], [(file, 0)], {h5py.h5o.get_info(file.id).addr}
        while open_groups:
            group, depth = open_groups.pop()
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"{group.name.rstrip('/')}/{name} is a link, not a part of the file")
                part = group[name]
                address = h5py.h5o.get_info(part.id).addr
                if address in addresses:
                    raise ValueError(f"{part.name} has two names")
                addresses.add(address)
                if len(addresses) > MAX_PARTS or depth == MAX_DEPTH:
                    raise ValueError("it has too many parts")
                if isinstance(part, h5py.Group):
                    open_groups.append((part, depth + 1))
                elif isinstance(part, h5py.Dataset):
                    ranges.append(_check_dataset(part, size))
                else:
                    continue
                parts.append(part)
        if size:  # the heaps of attributes lie between the datasets
            n_remaining = SCANNED
            with mmap.mmap(file.id.get_vfd_handle(), 0, access=mmap.ACCESS_READ) as content:
                ranges.sort()
                for (_, begin), (end, _) in zip(ranges, [*ranges[1:], (size, 0)], strict=True):
                    end = min(end, begin + n_remaining)
                    n_remaining -= max(0, end - begin)
                    while (begin := content.find(b"GCOL", begin, end)) >= 0:
                        begin = _check_heap(content, begin) if begin % 8 == 0 else begin + 4
        for part in parts:
            attributes(part)  # HDF5 caches what it reads, so later reads use only heaps that were checked here


def read_strings(data: h5py.Dataset, begin: int = 0, end: int | None = None) -> list[str]:
    if data.ndim != 1:
        raise ValueError(f"{data.name} is not one-dimensional")
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
            for heap in np.unique(stored["heap"]).tolist():
                if 0 < heap < end_of_last:  # 0: an empty string
                    raise ValueError("string heaps overlap")
                end_of_last = _check_heap(content, heap) if heap else 0
    names: list[str] = data.asstr()[begin:end].tolist()
    if any("\0" in string for string in names):  # in fixed-length strings; variable-length strings end at a NUL
        raise ValueError(f"{data.name} has a string with a NUL character")
    return names


def attributes(item: h5py.Group) -> dict[str, object]:
    values = dict(item.attrs)
    for name, value in values.items():
        if isinstance(value, str):
            text_of(item, name)
        elif np.asarray(value).dtype.kind not in "biuf":
            raise ValueError(f"attribute {name} is neither a string nor a number")
    return values


def text_of(item: h5py.Group, name: str) -> str:
    value = item.attrs[name]
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"attribute {name} is not a string")
    value.encode()
    return value


def _check_dataset(part: h5py.Dataset, size: int) -> tuple[int, int]:
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
        # HDF5 visits every chunk to compute the stored size, so limit the number of chunks first.
        fits = not variable and n_chunks <= min(size // 8, MAX_CHUNKS) and max(claimed, chunk) <= MAX_PACKED * size
        fits = claimed == 0 or (fits and max(claimed, chunk) <= MAX_PACKED * min(size, part.id.get_storage_size()))
    elif offset is not None:
        fits = offset + claimed <= size
    elif part.id.get_storage_size() == 0:
        fits = claimed == 0 or (not variable and (claimed <= size or part.name in UNWRITTEN))
    else:  # stored in the header
        fits = not variable and claimed <= size
    if not fits:
        raise ValueError(f"{part.name} claims {claimed} bytes, more than the file can hold")
    return (0, 0) if offset is None else (offset, offset + claimed)


def _check_heap(content: mmap.mmap, begin: int) -> int:
    if begin + _HEAP.size > len(content):
        raise ValueError("strings lie beyond the end of the file")
    name, version, size = _HEAP.unpack_from(content, begin)
    position, end = begin + _HEAP.size, begin + int(size)
    if name != b"GCOL" or version != 1 or end > len(content) or position > end:
        raise ValueError("the strings are damaged")
    while position + _OBJECT.size <= end:
        number, _, _, size = _OBJECT.unpack_from(content, position)
        position += _OBJECT.size + -(-size // 8) * 8 if number else size  # number 0 is free space
        if position > end or (number == 0 and size < _OBJECT.size):
            raise ValueError("the strings are damaged")
    return end
