"""The names of rows: what the source calls them, or the number of the line that they stand on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from hpcml.files.spool import Spool


class RowIds:
    """This rank's row ids: `len`, and slices as lists of strings. They wait outside of memory. Local."""

    def __init__(self, scratch: Path) -> None:
        self.text, self.ends, self.lines = Spool(scratch, np.uint8), Spool(scratch, np.int64), Spool(scratch, np.int64)
        self.ends.append(np.zeros(1, dtype=np.int64))
        self.lines_above = 0  # of this rank's, in the file

    def __len__(self) -> int:
        return self.lines.size

    def extend(self, ids: Sequence[str], lines: Sequence[int]) -> None:
        """Append rows: the id of each ("" if it has none) and its line, from 0, of this rank's lines. Raises OSError."""
        codes = [row_id.encode() for row_id in ids]
        self.ends.append(np.fromiter(accumulate(map(len, codes)), np.int64, len(codes)) + self.text.size)
        self.text.append(np.frombuffer(b"".join(codes), dtype=np.uint8))
        self.lines.append(np.array(lines, dtype=np.int64))

    def __getitem__(self, where: slice) -> list[str]:
        begin, end, _ = where.indices(len(self))
        ends = self.ends[begin : end + 1]
        text, lines = self.text[ends[0] : ends[-1]].tobytes(), self.lines[begin:end] + self.lines_above + 1
        bounds = pairwise((ends - ends[0]).tolist())
        return [text[a:b].decode() or str(line) for (a, b), line in zip(bounds, lines.tolist(), strict=True)]
