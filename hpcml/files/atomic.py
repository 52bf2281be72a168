"""Files that appear complete or not at all."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path

from hpcml import mpi
from hpcml.errors import ConfigError, DataError, file_error
from hpcml.files.temporary import claimed, remove, temporary_name
from hpcml.signals import cleanup_on_exit


def check_output(path: Path, overwrite: bool, inputs: Iterable[Path | None] = ()) -> None:
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file")
    if not path.exists():
        if not path.parent.is_dir():
            raise DataError(f"{path}: the folder {path.parent} does not exist; create it first")
        return
    if any(input_path is not None and input_path.exists() and path.samefile(input_path) for input_path in inputs):
        raise ConfigError(f"{path} is also an input; choose another name for the output")
    if not path.is_file():
        raise ConfigError(f"{path} is not a plain file; choose another name")
    if not overwrite:
        raise ConfigError(f"{path} exists already; choose another name or use --force")


@contextmanager
def temporary_path(comm: mpi.Comm, path: Path | str, overwrite: bool = False, inputs: Iterable[Path | None] = ()) -> Iterator[Path]:
    """Yield a temporary name that is renamed to `path` after the body, or removed. Collective over `comm`."""
    path = Path(path)
    final = Path(os.path.realpath(path))  # the target of a link, not the link
    temporary = final.parent / comm.bcast(temporary_name(final).name)
    with ExitStack() as stack:
        stack.enter_context(cleanup_on_exit(partial(remove, temporary)))  # on whichever rank ends the job
        with mpi.agreed(comm, f"creating {path}"):
            if comm.rank == 0:
                check_output(path, overwrite, inputs)
                stack.enter_context(claimed(temporary, final))
        try:
            yield temporary
            with mpi.agreed(comm, f"finishing {path}"):
                if comm.rank == 0:
                    sync(temporary)
                    temporary.replace(final)
                    sync(final.parent)
        except BaseException:
            if comm.rank == 0:
                temporary.unlink(missing_ok=True)
            raise


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path | str, content: bytes | Iterable[bytes]) -> None:
    try:
        with temporary_path(mpi.self_comm(), path, overwrite=True) as temporary, temporary.open("wb") as out:
            out.writelines([content] if isinstance(content, bytes) else content)
    except OSError as error:
        raise file_error(path, "write", error) from None


class ListInParts(list[object]):
    """A list for `write_json` whose entries are created while they are written, so that few are in memory."""

    def __init__(self, entries: Iterable[object]) -> None:
        self._entries = iter(entries)
        super().__init__(islice(self._entries, 1))  # the encoder tests whether a list is empty

    def __iter__(self) -> Iterator[object]:
        yield from super().__iter__()
        yield from self._entries


def write_json(path: Path | str, content: object) -> None:
    """Write indented JSON atomically; unpaired surrogates become JSON escapes. Raises DataError."""
    pieces = json.JSONEncoder(indent=1, ensure_ascii=False, allow_nan=False).iterencode(content)
    write_atomically(path, (piece.encode(errors="backslashreplace") for piece in chain(pieces, "\n")))
