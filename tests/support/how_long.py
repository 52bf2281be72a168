"""How long `launch/test.sh` will take on this machine, as it is now: printed before it begins.

It took 1,563 s in a fresh clone on two cores that nothing else used, where the loop of this file took 0.64 s on each. Here the
loop runs on all cores at once, up to four, since more do not help much. So slow cores and busy ones count.
"""

import math
import os
import subprocess
import sys
from pathlib import Path

WORK = 2200  # seconds of a core where LOOP takes USUAL
COMPILING = 250  # seconds of a core, where no kernels are kept for this folder
LOOP = "import time; t = time.perf_counter(); n = 0\nfor i in range(10_000_000): n += i & 7\nprint(time.perf_counter() - t)"
USUAL = 0.5  # seconds for LOOP
MOST_CORES = 4


def minutes(n_cores, seconds, compiles):
    """The time that the tests take if LOOP takes so many seconds on each of so many cores."""
    return math.ceil((WORK + COMPILING * compiles) / min(n_cores, MOST_CORES) * seconds / USUAL / 60)


def loop_seconds(n_cores, rounds=3):
    """How long LOOP takes on all of these cores at once: the mean of the cores, in the quickest of the rounds."""
    found = []
    for _ in range(rounds):
        loops = [subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE, text=True) for _ in range(n_cores)]
        found.append(sum(float(loop.communicate()[0]) for loop in loops) / n_cores)
    return min(found)


def kernels_are_kept():
    """Whether compiled kernels of this folder are kept."""
    from hpcml.kernels.rows import compact

    return any(Path(compact._cache.cache_path).glob("*.nbc"))


def main():
    """Print a line."""
    n_cores = len(os.sched_getaffinity(0))
    seconds, compiles = loop_seconds(min(n_cores, MOST_CORES)), not kernels_are_kept()
    compiling = ", kernels to be compiled among it" if compiles else ""
    usual = minutes(2, USUAL, compiles)
    print(
        f"== this will take about {minutes(n_cores, seconds, compiles)} minutes{compiling} "
        f"({usual} on two idle cores where a loop takes {USUAL} s; here it takes {seconds:.2f} s on each of {n_cores})"
    )


if __name__ == "__main__":
    main()
