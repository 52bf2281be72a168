"""Processor, numba's compilation target, and numerical libraries of a run."""

import os
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path


@cache
def processor_name() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def computed_by() -> dict[str, str]:
    from numba.core.registry import cpu_target
    from threadpoolctl import threadpool_info

    # numba's target by LLVM's name: this processor, unless NUMBA_CPU_NAME and NUMBA_CPU_FEATURES are set.
    _, name, flags = cpu_target.target_context.codegen().magic_tuple()
    features = " ".join(feature[1:] for feature in flags.split(",") if feature.startswith("+"))
    packages = {package: version(package) for package in ("numpy", "numba", "llvmlite")}
    processor = {"processor": processor_name(), "architecture": platform.machine(), "target": name, "features": features}
    # NumPy's own BLAS and its target processor, or all loaded ones.
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    libraries = [library for library in libraries if "numpy.libs" in library["filepath"]] or libraries
    texts = (f"{each['internal_api']} {each['version']} {each.get('architecture', '')}".strip() for each in libraries)
    blas = ", ".join(sorted(set(texts)))
    # The C library, whose mathematical functions differ by processor.
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        libc = " ".join(platform.libc_ver())
    return {**processor, **packages, "blas": blas, "libc": libc}
