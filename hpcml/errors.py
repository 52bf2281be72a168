"""The errors that hpcml raises on purpose, each with the exit code it ends the program with."""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable
from typing import TypeGuard

from hpcml.log import joined, visible

_NO_MEMORY = re.compile("(out of|allocate) memory|memory allocation|unable to allocate|failed to map segment|load shared object")
FEW = 6  # words in a sentence that lists what there is
EXIT_USER = 2
EXIT_IN_USE = 73
EXIT_RESUMABLE = 75


class HpcmlError(Exception):
    """Anything that hpcml reports in one sentence instead of a traceback."""

    exit_code = EXIT_USER

    def __str__(self) -> str:
        """Return one line, even if names in it hold line breaks."""
        return visible(super().__str__())


class ConfigError(HpcmlError):
    """The user's options do not make sense (or do not fit one another)."""


class OptionError(ConfigError):
    """The value of an option is wrong, or the option has no effect."""

    in_python = False  # whether `str` names options as Python does, or as the command line

    def __init__(self, name: str, value: object, why: str, *others: str) -> None:
        """`name` is that of the field. With `others`, options of which `why` speaks: "has no effect without"."""
        super().__init__(name, value, why, *others)
        self.name, self.value, self.why, self.others = name, value, why, others

    def __str__(self) -> str:
        """`--top 0: expected at least 1`, or `top=0: expected at least 1`."""
        return visible(self.with_name(self.name, self.in_python))

    def with_name(self, name: str, in_python: bool) -> str:
        """Return the sentence with another name for the option."""
        value = self.value
        if in_python:
            shown = f"{name}={value}"
        elif isinstance(value, bool):
            shown = f"--{'' if value else 'no-'}{flag_of(name)}"
        else:
            values = value if isinstance(value, tuple) else (value,)
            shown = " ".join([f"--{flag_of(name)}", *(str(each) for each in values if each is not None)])
        if not self.others:
            return f"{shown}: {self.why}"
        others = " or ".join(other if in_python else f"--{flag_of(other)}" for other in self.others)
        return f"{shown}: {self.why} {others}; remove it"


class InUseError(HpcmlError):
    """Another job is at work in the folder: later, the same command may succeed."""

    exit_code = EXIT_IN_USE


class DataError(HpcmlError):
    """A file cannot be read or written, or does not hold what it should."""


class BadRecordsError(DataError):
    """Records of an input cannot be read; a line for each follows the sentence."""

    def __init__(self, sentence: str, *records: str) -> None:
        super().__init__(sentence, *records)

    def __str__(self) -> str:
        return joined([f"{self.args[0]}:", *(f"  {each}" for each in self.args[1:])])


class MatrixError(DataError, ValueError):
    """A matrix or labels in memory are not sound; a ValueError too, as scikit-learn's classifiers raise."""


class NonFiniteError(HpcmlError):
    """A loss or gradient stopped being a finite number."""


class CollectiveError(HpcmlError):
    """Another rank failed inside an agreed region for a reason that is our bug, not the user's."""

    exit_code = 1


class Interrupted(HpcmlError):
    """A signal or a time limit ended the run after a checkpoint; it can be resumed."""

    exit_code = EXIT_RESUMABLE


class Stopped(Interrupted):
    """Work was left where it stands; its driver saves what there is."""


def flag_of(field_name: str) -> str:
    """The flag (without dashes) and TOML key of an option."""
    return "lambda" if field_name == "lam" else field_name.replace("_", "-")


def reason_and_hint(error: OSError) -> tuple[str, str]:
    """Why the operating system refused, and what to do about it ("" or "; …")."""
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
    """The sentence about it."""
    reason = f" ({' '.join(str(error).split())})" if str(error) else ""
    return f"rank {rank} ran out of memory {when}{reason}; use fewer ranks on a node, or more nodes"


def repeated(names: Iterable[str]) -> str | None:
    """The first name that has stood there before; None if each stands there once."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def is_same_but_case(name: str, other: str) -> bool:
    """Return whether two names differ at most by upper and lower case, and by blanks around them."""
    return name.strip().casefold() == other.strip().casefold()


def nearest_name(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelt word is probably meant to be; None if no name is similar."""
    known = sorted(known)
    near = [each for each in known if is_same_but_case(each, word)] or difflib.get_close_matches(word, known, n=1)
    return near[0] if near else None


def nearest(word: str, known: Iterable[str], listed_by: str = "") -> str:
    """Advice on a misspelt word: the nearest, else the known ones if few, else who lists them."""
    known = sorted(known)
    near = nearest_name(word, known)
    if near is not None or len(known) <= FEW:
        return f"did you mean {near!r}?" if near is not None else f"known: {', '.join(known)}"
    return f"`{listed_by}` lists what there is" if listed_by else ""


def is_of_the_system(error: Exception) -> TypeGuard[OSError]:
    """Whether reading failed for a reason that says nothing about the file."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE)


def is_in_use(error: OSError) -> bool:
    """Whether HDF5 refused a file that another program has open to write, or locked."""
    return "already open for" in str(error) or f"unable to lock file, errno = {errno.EAGAIN}," in str(error)


def file_error(path: object, doing: str, error: OSError) -> DataError:
    """One sentence for the system's error on `path`; `doing` is what failed: "read", "write"."""
    reason, hint = reason_and_hint(error)
    return DataError(f"{path}: cannot {doing}: {reason}{hint}")
