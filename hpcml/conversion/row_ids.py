"""The names of rows: what the source calls them, or the number of the line that they stand on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpcml.files.spool import Spool, StringSpool


class RowIds:
    """This rank's row ids: `len`, and slices as lists. They wait outside of memory. Local."""

    def __init__(self, scratch: Path) -> None:
        self.ids, self.lines = StringSpool(scratch), Spool(scratch, np.int64)
        self.lines_above = 0  # of this rank's, in the file

    def __len__(self) -> int:
        return self.lines.size

    def extend(self, ids: Sequence[str], lines: Sequence[int]) -> None:
        """Append ids ("": none) and lines, from 0, of this rank's lines. Raises OSError."""
        self.ids.extend([row_id.encode() for row_id in ids])
        self.lines.append(np.array(lines, dtype=np.int64))

    def __getitem__(self, where: slice) -> list[str]:
        lines = self.lines[where] + self.lines_above + 1
        return [row_id or str(line) for row_id, line in zip(self.ids[where], lines.tolist(), strict=True)]
