"""The speed of `hpcml convert pubmed` on files of `launch.lab bench pubmed_xml`, beside pubmed_parser's reading of the same files.

pubmed_parser (pip install pubmed_parser) reads with `parse_medline_xml`; it makes no rows. OPTIONS go to convert. Prints a JSON
line for the files, one for the peer (its first N files, default all) and one for each number of ranks: wall and CPU seconds (of all
ranks, start included), records a second and rank of both, and the peak of memory (MiB) of the largest rank. `hours` is the time
that 36 million records would take at that wall rate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from launch.lab.bench._common import parser_of

PUBMED = 36_000_000
PEER = """
import sys, pubmed_parser
print(sum(1 for path in sys.argv[1:] for _ in pubmed_parser.parse_medline_xml(path)))
"""
OURS = """
import resource, sys
from hpcml.__main__ import main
from launch.lab.bench._common import parser_of
try:
    main()
finally:
    print("PEAK", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr, flush=True)
"""


def timed(command: list) -> tuple[float, float, subprocess.CompletedProcess]:
    """Wall seconds, CPU seconds and the outcome of a command; it must end well."""
    begin, before = time.monotonic(), os.times()
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - begin, cpu, done


def rates(records: int, wall: float, cpu: float, ranks: int) -> dict:
    """What a line says of a run."""
    return {
        "wall": round(wall, 2),
        "cpu": round(cpu, 2),
        "records_a_second_and_rank": round(records / wall / ranks),
        "records_a_cpu_second": round(records / cpu),
        "hours": round(PUBMED / (records / wall) / 3600, 2),
    }


def main(words: list[str]) -> None:
    """Make the files, and time both."""
    parser = parser_of("pubmed_speed", __doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--peer-files", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("options", nargs="*")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        maker = [sys.executable, "-m", "launch.lab", "bench", "pubmed_xml"]
        made = timed([*maker, f"{folder}/xml", "--records", options.records, "--files", options.files])[2]
        print(made.stdout.strip(), flush=True)
        files = sorted(Path(folder, "xml").iterdir())
        if not options.no_peer:
            some = files[: options.peer_files]
            wall, cpu, done = timed([sys.executable, "-c", PEER, *some])
            n_found = int(done.stdout)
            print(json.dumps({"program": "pubmed_parser", "records": n_found} | rates(n_found, wall, cpu, 1)), flush=True)
        for ranks in options.ranks:
            launch = ["mpirun", "-n", ranks] if ranks > 1 else []
            what = ["convert", "pubmed", *files, "-o", f"{folder}/{ranks}.h5", *options.options]
            wall, cpu, done = timed([*launch, sys.executable, "-c", OURS, *what])
            peak = max(int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("PEAK "))
            line = {"program": "hpcml", "ranks": ranks, "peak_mib": peak} | rates(
                json.loads(made.stdout)["records"], wall, cpu, ranks
            )
            print(json.dumps(line), flush=True)
