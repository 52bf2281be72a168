"""The speed of `hpcml convert pubmed` on files of `launch.lab bench pubmed_xml`, compared with pubmed_parser on the same files.

pubmed_parser (pip install pubmed_parser) reads with `parse_medline_xml`; it builds no rows. OPTIONS go to convert. There is a line
for the files, one for the peer (its first N files, default all) and one for each number of ranks: wall and CPU seconds (of all
ranks, start included), records a second and rank of both, and the peak of memory (MiB) of the largest rank. `hours` is the time
that 36 million records would take at that wall rate.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launch.lab.bench import pubmed_xml
from launch.lab.core.bench import rounded
from launch.lab.core.timing import Usage, run_command, run_hpcml

PUBMED = 36_000_000
PEER = """
import sys, pubmed_parser
print(sum(1 for path in sys.argv[1:] for _ in pubmed_parser.parse_medline_xml(path)))
"""


def rates(records: int, used: Usage, ranks: int) -> dict[str, Any]:
    line = {"records": records, "wall": used.seconds, "cpu": used.cpu_seconds, "peak_mib": used.peak_mib}
    line |= {"records_a_second_and_rank": records / used.seconds / ranks, "records_a_cpu_second": records / used.cpu_seconds}
    return rounded(4, **line, hours=PUBMED / (records / used.seconds) / 3600)


def run(
    scratch: Path,
    *,
    records: int = 20_000,
    files: int = 10,
    ranks: tuple[int, ...] = (1, 2),
    no_peer: bool = False,
    peer_files: int | None = None,
    options: tuple[str, ...],
) -> Iterator[dict[str, Any]]:
    generated = next(pubmed_xml.run(scratch, scratch / "xml", records=records, files=files))
    yield generated
    paths = sorted((scratch / "xml").iterdir())
    if not no_peer:
        used = run_command([sys.executable, "-c", PEER, *paths[:peer_files]])
        yield {"program": "pubmed_parser", "ranks": 1} | rates(int(used.output), used, 1)
    for n in ranks:
        used = run_hpcml("convert", "pubmed", *paths, "-o", scratch / f"{n}.h5", *options, ranks=n)
        yield {"program": "hpcml", "ranks": n} | rates(generated["records"], used, n)
