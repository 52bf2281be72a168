"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from hpcml import mpi
from hpcml.errors import ConfigError, DataError, file_error
from hpcml.files.temporary import claimed, remove, temporary_name
from hpcml.undo import undone

JOB_MARKER = "HPCML_OUTPUTS"  # environment variable: a file that the job script makes when the job first starts


def made_by_this_job(path: Path) -> bool:
    """Return whether a start of this job wrote `path`: it is not older than the job's marker. Raises OSError.

    A command that cannot resume begins anew when its job is queued again, and replaces its own outputs
    without --force. Files that existed before the job began are never replaced.
    """
    marker = os.environ.get(JOB_MARKER)
    return bool(marker) and Path(str(marker)).exists() and path.stat().st_mtime_ns >= Path(str(marker)).stat().st_mtime_ns


def check_output(path: Path, overwrite: bool, inputs: Iterable[Path | None] = ()) -> None:
    """Raise ConfigError if writing `path` would destroy a file, an input or a device."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file")
    if not path.exists():
        return
    if any(given is not None and given.exists() and path.samefile(given) for given in inputs):
        raise ConfigError(f"{path} is also an input; choose another name for the output")
    if not path.is_file():
        raise ConfigError(f"{path} is not a plain file; choose another name")
    if not (overwrite or made_by_this_job(path)):
        raise ConfigError(f"{path} exists already; choose another name or use --force")


def check_new(path: Path, overwrite: bool, inputs: Iterable[Path | None] = ()) -> None:
    """As `check_output`; raise DataError, too, unless the folder of `path` exists."""
    check_output(path, overwrite, inputs)
    if not path.parent.is_dir():
        raise DataError(f"{path}: the folder {path.parent} does not exist; create it first")


@contextmanager
def temporary_path(comm: mpi.Comm, path: Path | str, overwrite: bool = False, inputs: Iterable[Path | None] = ()) -> Iterator[Path]:
    """Collective over `comm`. A temporary name, renamed to `path` after the body, or removed.

    Raises ConfigError if `path` exists (without `overwrite`) or is one of the `inputs`, DataError
    if its folder does not exist.
    """
    path = Path(path)
    final = Path(os.path.realpath(path))  # what a link points to, not the link
    temporary = final.parent / comm.bcast(temporary_name(final).name)
    with ExitStack() as stack:
        stack.enter_context(undone(partial(remove, temporary)))  # by whichever rank ends the job
        with mpi.agreed(comm, f"creating {path}"):
            if comm.rank == 0:
                check_output(path, overwrite, inputs)
                if not path.parent.is_dir():
                    raise DataError(f"{path}: the folder {path.parent} does not exist; create it first")
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
    """Force a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path | str, content: object) -> None:
    """Write indented JSON, whole or not at all. Local; raises DataError."""
    write_whole(path, encoded(json_text(content) + "\n"))


def json_text(content: object) -> str:
    """Indented JSON."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)


def encoded(text: str) -> bytes:
    """The bytes of JSON; half a surrogate pair becomes JSON's escape."""
    return text.encode(errors="backslashreplace")


def write_json_list(path: Path | str, content: dict[str, object], name: str, parts: Iterable[Sequence[object]]) -> None:
    """Write `content` and, as its last entry, a list that comes in parts, as `write_json` would.

    Only one part is held at a time. Local; raises DataError.
    """

    def pieces() -> Iterator[bytes]:
        head, begun = json_text(content | {name: []}).removesuffix("[]\n}"), False
        yield encoded(head + "[")
        for part in filter(None, parts):
            yield encoded("," * begun + json_text(list(part))[1:-2].replace("\n", "\n "))
            begun = True
        yield encoded("\n ]\n}\n" if begun else "]\n}\n")

    write_pieces(path, pieces())


def write_whole(path: Path | str, content: bytes) -> None:
    """Write a small file whole or not at all. Local; raises DataError."""
    write_pieces(path, [content])


def write_pieces(path: Path | str, pieces: Iterable[bytes]) -> None:
    """Write a file piece by piece, whole or not at all. Local; raises DataError."""
    final = Path(os.path.realpath(path))  # what a link points to, not the link
    temporary = temporary_name(final)
    try:
        with undone(partial(remove, temporary)), claimed(temporary, final):
            with temporary.open("wb") as out:
                out.writelines(pieces)
            temporary.replace(final)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise file_error(path, "write", error) from None
