"""What the numbers of a run are computed by: the processor, what numba compiles for, libraries."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path


@cache
def processor_name() -> str:
    """The model name of the processor, as far as the system tells; else its architecture."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def computed_by() -> dict[str, str]:
    """Processor, numba's target, and the libraries whose code depends on the processor. Local."""
    from numba.core.registry import cpu_target
    from threadpoolctl import threadpool_info

    # What numba compiles for, by LLVM's name: this processor, unless NUMBA_CPU_NAME and NUMBA_CPU_FEATURES say otherwise.
    _, name, listed = cpu_target.target_context.codegen().magic_tuple()
    features = " ".join(feature[1:] for feature in listed.split(",") if feature.startswith("+"))
    packages = {package: version(package) for package in ("numpy", "numba", "llvmlite")}
    processor = {"processor": processor_name(), "architecture": platform.machine(), "target": name, "features": features}
    # NumPy's library of linear algebra, and the processor that it has code for; of a NumPy without one of its own, those that are
    # loaded.
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    of_numpy = [library for library in found if "numpy.libs" in library["filepath"]]
    texts = (f"{each['internal_api']} {each['version']} {each.get('architecture', '')}".strip() for each in of_numpy or found)
    blas = ", ".join(sorted(set(texts)))
    # The C library, whose mathematical functions differ by processor.
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        libc = " ".join(platform.libc_ver())
    return {**processor, **packages, "blas": blas, "libc": libc}
