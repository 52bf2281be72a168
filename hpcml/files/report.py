"""Results: a text for people, and the same content as JSON.

A result is a dataclass that inherits `ReportedResult` and defines `describe`. Its fields are the keys of its JSON object, unless it
overrides `as_dict`.
"""

import math
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcml.files import atomic
from hpcml.log import joined


def cell(value: float, form: str = ".4f") -> str:
    return "-" if math.isnan(value) else f"{value:{form}}"


def nan_to_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def plain(value: Any) -> Any:
    """Convert a value for JSON: paths to strings, arrays to lists, records to objects, NaN to null."""
    if isinstance(value, float):
        return nan_to_none(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if type(value) in (list, tuple) else value


def select_attributes(item: object, *names: str) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


class ReportedResult:
    def describe(self) -> Iterable[str]:
        raise NotImplementedError

    def __str__(self) -> str:
        return joined(self.describe())

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON report.

        Returns
        -------
        dict of str to object
            Values of the types that `json` supports.
        """
        content: dict[str, Any] = plain(self)
        return content

    def write_json(self, path: Path | str) -> None:
        """Write the result to a file as JSON.

        Parameters
        ----------
        path : path
            The file to write; an existing file is replaced.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        atomic.write_json(path, self.as_dict())
