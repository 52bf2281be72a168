"""Lines of a plain or compressed file, divided among ranks by the bytes in which they begin.

A rank would have to decompress everything before its lines, so rank 0 decompresses a file once for all ranks (`unpacked_once`).
"""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, cast

from hpcml import mpi
from hpcml.errors import DataError, OptionError
from hpcml.files.opening import decoded, open_regular
from hpcml.files.slabs import write_at
from hpcml.files.temporary import scratch_folder
from hpcml.log import named
from hpcml.partition import even_range

BLOCK_BYTES = 1 << 23
BUFFER_BYTES = 1 << 17
LINE_MIB = 16  # the longest line by default
MAX_LINE_MIB = 1 << 16
UNPACK_BYTES = 1 << 28  # memory limit for decompressing xz and zst, whose files state their need; xz -9 needs a quarter
ZSTD = ("compression.zstd", "backports.zstd")  # the standard library's module from Python 3.14 on, and its backport
FEW = 3  # members of an archive in a message
HEAD_BYTES = 8  # enough to detect the compression
TAR = slice(257, 262)  # position of the magic bytes of a tar archive
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Exceptions for damaged compressed files; an OSError with a number is one of the operating system.
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, OSError)

UNPACKED_COPIES: dict[Path, Path] = {}  # compressed file -> its uncompressed copy, set by `unpacked_once`


class CannotUnpack(OSError):
    """A compressed file that is not damaged but cannot be decompressed; the message gives the reason and a remedy."""


class _BoundedReader(io.RawIOBase):
    def __init__(self, file: BinaryIO, kind: str, new_stream: Callable[[], Any]) -> None:
        self.file, self.kind, self.new_stream, self.stream, self.packed = file, kind, new_stream, new_stream(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        while not (self.stream.eof and not self._next_stream()):
            if self.stream.needs_input and not self.packed and not (more := self.file.read(BUFFER_BYTES)):
                raise EOFError("it ends before its end-of-stream marker")
            elif self.stream.needs_input and not self.packed:
                self.packed = more
            try:
                data, self.packed = self.stream.decompress(self.packed, len(view)), b""
            except Exception as error:  # noqa: BLE001 - LZMAError, or ZstdError of a package that may be missing
                if "limit" in str(error) or "too much memory" in str(error):
                    needs = f"needs more than {UNPACK_BYTES >> 20} MiB of memory to decompress"
                    raise CannotUnpack(f"{needs}; compress it again with {self.kind[1:].replace('zst', 'zstd')} -9") from None
                raise OSError(str(error)) from None
            if data:
                view[: len(data)] = data
                return len(data)
        return 0

    def _next_stream(self) -> bool:
        """Continue with the next compressed stream; return False, ignoring other trailing data, if there is none."""
        packed = self.stream.unused_data.lstrip(b"\0")
        while len(packed) < HEAD_BYTES and (more := self.file.read(BUFFER_BYTES)):
            packed = (packed + more).lstrip(b"\0")
        if detect_compression(packed) != self.kind:
            return False
        self.stream, self.packed = self.new_stream(), packed
        return True


def _open_xz(file: BinaryIO, _: str) -> BinaryIO:
    new_stream = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=UNPACK_BYTES)
    return io.BufferedReader(_BoundedReader(file, ".xz", new_stream), BUFFER_BYTES)


def _open_zst(file: BinaryIO, _: str) -> BinaryIO:
    for name in ZSTD:
        with suppress(ImportError):
            zstd = import_module(name)
            options = {zstd.DecompressionParameter.window_log_max: UNPACK_BYTES.bit_length() - 1}
            return io.BufferedReader(_BoundedReader(file, ".zst", partial(zstd.ZstdDecompressor, options=options)), BUFFER_BYTES)
    raise CannotUnpack("compressed with zstd; pip install 'hpcml[zst]', or compress it again with gzip or xz")


def find_only_member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [each for each in archive.infolist() if not each.is_dir() and not each.filename.startswith("__MACOSX/")]
    if any(each.filename == "xl/workbook.xml" for each in members):
        raise CannotUnpack("an Excel workbook; save the sheet as CSV in UTF-8")
    if len(members) != 1:
        few = ", ".join(named(each.filename) for each in members[:FEW]) + (", ..." if len(members) > FEW else "")
        raise CannotUnpack(f"a ZIP archive of {len(members)} files{f' ({few})' if few else ''}, but expected one; unpack it")
    if members[0].flag_bits & 1:
        raise CannotUnpack(f"the file {named(members[0].filename)!r} in the ZIP archive is encrypted; unpack it")
    return members[0]


def _open_zip(file: BinaryIO, _: str) -> BinaryIO:
    if not file.seekable():
        raise CannotUnpack("a ZIP archive in a pipe; write it to disk first")
    archive = zipfile.ZipFile(file)
    try:
        return cast("BinaryIO", archive.open(find_only_member(archive)))
    except NotImplementedError as error:
        raise CannotUnpack(f"a ZIP archive that Python cannot read ({error}); unpack it") from None


# First bytes of each compressed format, its file ending, and the function that opens it.
MAGIC: dict[bytes, tuple[str, Callable[..., Any]]] = {
    b"\x1f\x8b": (".gz", gzip.open),
    b"BZh": (".bz2", bz2.open),
    b"\xfd7zXZ\x00": (".xz", _open_xz),
    b"\x28\xb5\x2f\xfd": (".zst", _open_zst),
    **dict.fromkeys([bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60)], (".zst", _open_zst)),  # skippable frames
    b"PK\3\4": (".zip", _open_zip),
    b"PK\5\6": (".zip", _open_zip),  # an empty archive
}
ENDINGS = {ending for ending, _ in MAGIC.values()}


def detect_compression(head: bytes) -> str:
    return next((kind for magic, (kind, _) in MAGIC.items() if head.startswith(magic)), "")


def plain_name(path: Path) -> str:
    if path.suffix.lower() == ".zip":
        with open_regular(path) as raw, suppress(zipfile.BadZipFile, CannotUnpack), zipfile.ZipFile(raw) as archive:
            return Path(find_only_member(archive).filename).name
    return path.stem if path.suffix.lower() in ENDINGS else path.name


def unpacked(file: BinaryIO, kind: str) -> BinaryIO:
    opened: BinaryIO = next((opener(file, "rb") for known, opener in MAGIC.values() if known == kind), file)
    return opened


def decompression_error(name: object, kind: str, error: Exception) -> Exception:
    if isinstance(error, OSError) and error.errno is not None:
        return error
    if isinstance(error, CannotUnpack):
        return DataError(f"{name}: {error}")
    return DataError(f"{name}: truncated or damaged {kind} file ({error}); download or create it again")


@contextmanager
def open_decompressed(path: Path) -> Iterator[BinaryIO]:
    kind = ""
    try:
        with open_regular(UNPACKED_COPIES.get(path, path)) as raw:
            kind = detect_compression(raw.read(HEAD_BYTES))
            raw.seek(0)
            with io.BufferedReader(raw, BUFFER_BYTES) as buffered, unpacked(buffered, kind) as file:
                if cast("Any", file).peek(TAR.stop)[TAR] == b"ustar":
                    raise CannotUnpack("a tar archive; unpack it")
                yield file
    except DAMAGE as error:
        raise decompression_error(path, kind, error) from None


def uncompressed_size(path: Path) -> int:
    size = 0
    with open_decompressed(path) as file:
        if type(file) is io.BufferedReader and file.seekable():
            return file.seek(0, io.SEEK_END)
        while block := file.read(1 << 20):
            size += len(block)
    return size


def read_lines(path: Path, longest: int, expected: str = "") -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text) of the lines of a UTF-8 file; `expected` ends the message about long lines. Raises DataError."""
    number = 0
    with open_decompressed(path) as file:
        while line := file.readline(longest + 1):
            number += 1
            if len(line) > longest:
                raise DataError(f"{path}: line {number}: longer than {longest} bytes{expected}")
            try:
                text = decoded(line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line)
            except ValueError as error:
                raise DataError(f"{path}: line {number}: {error}") from None
            yield number, text.rstrip("\r\n")


def line_limit(max_line_mb: int | None) -> int:
    if max_line_mb is not None and not 1 <= max_line_mb <= MAX_LINE_MIB:
        raise OptionError("max_line_mb", max_line_mb, f"expected a number from 1 to {MAX_LINE_MIB}")
    return (max_line_mb or LINE_MIB) << 20


def long_line(name: object, line: int, max_line: int) -> DataError:
    return DataError(f"{name}: line {line}: longer than {max_line / 2**20:g} MiB; shorten it or raise --max-line-mb")


def byte_range(comm: mpi.Comm, path: Path) -> tuple[int, int]:
    """Return the range of uncompressed bytes in which this rank's lines begin. Raises DataError. Collective over `comm`."""
    size = mpi.run_on_root(comm, f"reading {path}", lambda: uncompressed_size(path))
    if size == 0:
        raise DataError(f"{path}: the file is empty; expected at least one line")
    return even_range(size, comm.rank, comm.size)


def line_blocks(
    path: Path, begin: int, end: int | None, block_bytes: int = BLOCK_BYTES, max_line: int = LINE_MIB << 20
) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, whole lines) of about `block_bytes`, for lines that begin in bytes begin to end. Raises DataError, OSError."""
    if end is not None and begin >= end:
        return
    with open_decompressed(path) as file:
        offset = max(0, begin - 1)  # the line with this byte belongs to the previous range
        skip_to(file, offset)
        while begin and (piece := file.readline(BUFFER_BYTES)):
            offset += len(piece)
            if piece.endswith(b"\n"):
                break
        while end is None or offset < end:
            n_bytes = min(block_bytes, max_line)  # so that only the last line of a block can be too long
            block = file.read(n_bytes if end is None else min(n_bytes, end - offset))
            if not block and end is None:
                return
            if not block:
                raise DataError(f"{path}: ends after {offset} of {end} bytes; the file must not change while it is read")
            last = block.rfind(b"\n", 0, -1) + 1
            if not block.endswith(b"\n"):
                block += file.readline(max_line + 1)
            if len(block) - block.endswith(b"\n") - last > max_line:
                if last:
                    yield offset, block[:last].removeprefix(BYTE_ORDER_MARK) if offset == 0 else block[:last]
                raise long_line(path, lines_before(path, offset + last) + 1, max_line)
            yield offset, block.removeprefix(BYTE_ORDER_MARK) if offset == 0 else block
            offset += len(block)


def skip_to(file: BinaryIO, offset: int) -> None:
    if file.seekable():
        file.seek(offset)
        return
    while offset > 0 and (block := file.read(min(offset, 1 << 20))):
        offset -= len(block)


def lines_before(path: Path, offset: int) -> int:
    count = 0
    with open_decompressed(path) as file:
        while offset > 0 and (block := file.read(min(BLOCK_BYTES, offset))):
            count += block.count(b"\n")
            offset -= len(block)
    return count


@contextmanager
def unpacked_once(comm: mpi.Comm, paths: Sequence[Path], scratch: Path, max_line: int) -> Iterator[None]:
    """Let `open_decompressed` read uncompressed copies in `scratch` during the body. Collective over `comm`."""
    copies: dict[Path, Path] = {}
    with ExitStack() as stack:
        for path in paths:
            with mpi.agreed(comm, f"reading {path}"):
                packed = False
                if comm.rank == 0:
                    with suppress(OSError, DataError), open_regular(path) as raw:  # errors are reported by the reader of the file
                        packed = bool(detect_compression(raw.read(HEAD_BYTES)))
                if packed:
                    copy = stack.enter_context(scratch_folder(f"{path.name}.unpacked", scratch)) / "plain"
                    with copy.open("wb", buffering=0) as out:
                        size = 0
                        for _, block in line_blocks(path, 0, None, max_line=max_line):
                            write_at(out.fileno(), memoryview(block), size, scratch)
                            size += len(block)
                    copies[path] = copy
        copies = comm.bcast(copies)
        UNPACKED_COPIES.update(copies)
        try:
            yield
        finally:
            for path in copies:
                del UNPACKED_COPIES[path]
