"""Errors that hpcml raises deliberately, each with its exit code."""

import difflib
import errno
import re
from collections.abc import Iterable
from typing import TypeGuard

from hpcml.log import joined, visible

_NO_MEMORY = re.compile("(out of|allocate) memory|memory allocation|unable to allocate|failed to map segment|load shared object")
FEW = 6  # names that a message lists in full
EXIT_USER = 2
EXIT_IN_USE = 73
EXIT_RESUMABLE = 75


class HpcmlError(Exception):
    """Base class of errors that are reported in one line instead of a traceback."""

    exit_code = EXIT_USER

    def __str__(self) -> str:
        return visible(super().__str__())


class ConfigError(HpcmlError):
    """Options are invalid or inconsistent."""


class OptionError(ConfigError):
    """The value of an option is invalid, or the option has no effect."""

    in_python = False  # name options as in Python, not as on the command line

    def __init__(self, name: str, value: object, why: str, *others: str) -> None:
        super().__init__(name, value, why, *others)
        self.name, self.value, self.why, self.others = name, value, why, others

    def __str__(self) -> str:
        """Return `--top 0: expected at least 1`, or `top=0: expected at least 1`."""
        return visible(self.with_name(self.name, self.in_python))

    def with_name(self, name: str, in_python: bool) -> str:
        value = self.value
        if in_python:
            option = f"{name}={value}"
        elif isinstance(value, bool):
            option = f"--{'' if value else 'no-'}{option_flag(name)}"
        else:
            values = value if isinstance(value, tuple) else (value,)
            option = " ".join([f"--{option_flag(name)}", *(str(each) for each in values if each is not None)])
        if not self.others:
            return f"{option}: {self.why}"
        others = " or ".join(other if in_python else f"--{option_flag(other)}" for other in self.others)
        return f"{option}: {self.why} {others}; remove it"


class InUseError(HpcmlError):
    """Another job uses the folder; the same command may succeed later."""

    exit_code = EXIT_IN_USE


class DataError(HpcmlError):
    """A file cannot be read or written, or has invalid content."""


class BadRecordsError(DataError):
    """Records of an input are invalid; the arguments are a sentence and a line for each."""

    def __str__(self) -> str:
        return joined([f"{self.args[0]}:", *(f"  {each}" for each in self.args[1:])])


class MatrixError(DataError, ValueError):
    """A matrix or labels in memory are invalid; also a ValueError, as scikit-learn's classifiers raise."""


class NonFiniteError(HpcmlError):
    """A loss or gradient is not finite."""


class CollectiveError(HpcmlError):
    """Another rank failed in a collective region because of a bug."""

    exit_code = 1


class Interrupted(HpcmlError):
    """A signal or the time limit ended the run after a checkpoint; it can be resumed."""

    exit_code = EXIT_RESUMABLE


class Stopped(Interrupted):
    """Work was stopped; its driver saves the state."""


def option_flag(field_name: str) -> str:
    return "lambda" if field_name == "lam" else field_name.replace("_", "-")


def reason_and_hint(error: OSError) -> tuple[str, str]:
    reason = error.strerror or str(error)
    hint = {
        "No space left on device": "; free some space or choose another folder",
        "File too large": "; raise the file-size limit (ulimit -f) or choose another folder",
        "Disk quota exceeded": "; free some of your quota or choose another folder",
        "Permission denied": "; check its permissions",
        "Read-only file system": "; choose another folder",
    }.get(reason, "")
    return reason, hint


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out: Python, the system, the loader, HDF5 and MPI report it differently."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    if isinstance(error, (OSError, ImportError, RuntimeError)):
        return _NO_MEMORY.search(str(error).lower()) is not None
    return isinstance(error, MemoryError)


def out_of_memory(rank: int, when: str, error: BaseException) -> str:
    reason = f" ({' '.join(str(error).split())})" if str(error) else ""
    return f"rank {rank} ran out of memory {when}{reason}; use fewer ranks on a node, or more nodes"


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs twice; None if all names are unique."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def is_same_but_case(name: str, other: str) -> bool:
    return name.strip().casefold() == other.strip().casefold()


def nearest_name(word: str, known: Iterable[str]) -> str | None:
    known = sorted(known)
    near = [each for each in known if is_same_but_case(each, word)] or difflib.get_close_matches(word, known, n=1)
    return near[0] if near else None


def nearest(word: str, known: Iterable[str], list_command: str = "") -> str:
    """Suggest the most similar name, else all names if there are few, else the command that lists them."""
    known = sorted(known)
    near = nearest_name(word, known)
    if near is not None or len(known) <= FEW:
        return f"did you mean {near!r}?" if near is not None else f"known: {', '.join(known)}"
    return f"run `{list_command}` for the list" if list_command else ""


def is_system_error(error: Exception) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE)


def is_in_use(error: OSError) -> bool:
    return "already open for" in str(error) or f"unable to lock file, errno = {errno.EAGAIN}," in str(error)


def file_error(path: object, doing: str, error: OSError) -> DataError:
    reason, hint = reason_and_hint(error)
    return DataError(f"{path}: cannot {doing}: {reason}{hint}")
