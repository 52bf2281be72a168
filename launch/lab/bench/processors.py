"""Compare the bits of all methods on tiny data across simulated processors, ranks and MPI libraries.

A simulated processor is this one with fewer features: numba compiles for another (NUMBA_CPU_NAME, NUMBA_CPU_FEATURES), and NumPy,
OpenBLAS and glibc use other code paths (NPY_DISABLE_CPU_FEATURES, OPENBLAS_CORETYPE, GLIBC_TUNABLES). On each, `hpcml check --bits`
runs under mpirun, with every PYTHON named: environments with another MPI library or other versions. Each target has its own kernel
cache. Digests of values of NumPy's and the C library's functions and of a matrix product show whether the switches have an effect.

OUT.json has the digests and versions of every run; OUT.md is a table of each output with its digest and the runs that differ. On
another machine, --against OUT.json compares.

Exit code 1: something did not run, differs between runs, or is not as in EARLIER.json; differences of other packages (EXTERNAL in
hpcml/check/bits.py) are only reported.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcml.check.bits import EXTERNAL, find_package
from launch.lab.core.bench import Failed
from launch.lab.core.tables import read_json, write_json
from launch.lab.core.timing import CommandError, run_command

LIMIT = 900  # seconds of a run: the first on a target compiles all kernels
# More ranks than cores: MPICH's that wait let others compute, Open MPI starts them; the working folder's hpcml is not preferred.
SETTINGS = {
    "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
    "PYTHONSAFEPATH": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
# glibc 2.33 and newer; the names with _Usable are those of older ones, and either ignores the other's
NO_FMA = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable,-FMA4_Usable"}
# What the switches change, in one process: digests of functions by library.
FUNCTIONS = """
import ctypes, hashlib, json, numpy
x, libm, digests = numpy.linspace(0.001, 30, 20001), ctypes.CDLL("libm.so.6"), {}
def add(name, values): digests[name] = hashlib.sha256(numpy.asarray(values).tobytes()).hexdigest()[:16]
for name in ("exp", "log", "log1p"):
    one = getattr(libm, name)
    one.restype, one.argtypes = ctypes.c_double, [ctypes.c_double]
    add(f"libc {name}", [one(value) for value in x.tolist()])
    add(f"numpy {name}", getattr(numpy, name)(x))
a = (numpy.arange(4096) * 7919 % 4093 / 4093 - 0.5).reshape(64, 64)
add("blas matmul", a @ a)
print(json.dumps(digests))
"""


def numpy_features(python: str = sys.executable) -> list[str]:
    """Return the processor features that NPY_DISABLE_CPU_FEATURES can disable in the installed NumPy."""
    core = "try: import numpy._core._multiarray_umath as core\nexcept ImportError: import numpy.core._multiarray_umath as core\n"
    there = "print(*(name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)))"
    return subprocess.run([python, "-c", core + there], check=True, capture_output=True, text=True).stdout.split()


def numba(name: str, *without: str) -> dict[str, str]:
    """Return numba's target: an LLVM processor without some of its features."""
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ",".join(f"-{feature}" for feature in without)}


def made_up_processors(python: str = sys.executable) -> dict[str, dict[str, str]]:
    """Return the environment variables of each simulated processor, for this architecture and NumPy."""
    features = numpy_features(python)
    newest = [name for name in features if name.startswith(("AVX512", "X86_V4"))]  # NumPy 2.4 and newer have levels: X86_V3, X86_V4
    no_avx512, baseline = ({"NPY_DISABLE_CPU_FEATURES": " ".join(names)} if names else {} for names in (newest, features))
    if platform.machine() != "x86_64":
        return {"native": {}, "generic": numba("generic") | baseline, "numpy-baseline": baseline}

    def blas(name: str) -> dict[str, str]:
        return {"OPENBLAS_CORETYPE": name}

    return {
        "native": {},
        "skylake-avx512": numba("skylake-avx512") | blas("SkylakeX"),
        "haswell": numba("haswell") | no_avx512 | blas("Haswell"),
        "zen2": numba("znver2") | no_avx512 | blas("Zen"),
        "sandybridge": numba("sandybridge") | baseline | blas("Sandybridge") | NO_FMA,
        "nehalem": numba("nehalem") | baseline | blas("Nehalem") | NO_FMA,
        "x86-64-v2": numba("x86-64-v2") | blas("Nehalem") | NO_FMA,
        "haswell-without-fma": numba("haswell", "fma", "avx2", "bmi2") | no_avx512 | NO_FMA,
        # one switch at a time: whose functions a difference comes from
        "libc-without-fma": NO_FMA,
        "numpy-without-avx512": no_avx512,
        "numpy-baseline": baseline,
        "blas-nehalem": blas("Nehalem"),
    }


def with_kernels(variables: dict[str, str], caches: Path) -> dict[str, str]:
    """Add a cache folder for the kernels of the simulated target."""
    if "NUMBA_CPU_NAME" not in variables:
        return variables
    cache = caches / f"{variables['NUMBA_CPU_NAME']}{variables['NUMBA_CPU_FEATURES']}"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    return variables | {"NUMBA_CACHE_DIR": str(cache)}


def check(python: str, ranks: int, env: dict[str, str], folder: Path, methods: tuple[str, ...]) -> dict[str, Any]:
    """Return the digests of `hpcml check --bits` and the versions that computed them, or the key "failed"."""
    out, mpirun = folder / "found.json", Path(python).absolute().with_name("mpirun")
    out.unlink(missing_ok=True)
    launcher = (mpirun if mpirun.exists() else "mpirun", "-n", ranks, python, "-m", "hpcml")
    words = ("check", folder / "tried", "--bits", "--force", "--json", out, *(("--methods", *methods) if methods else ()))
    try:
        run_command((*launcher, *words), env=env, timeout=LIMIT)
    except CommandError as error:
        if not out.exists():  # else digests are not those that ship, which is judged here
            return {"failed": str(error)}
    return read_json(out)


def functions(env: dict[str, str], python: str = sys.executable) -> dict[str, str]:
    return json.loads(subprocess.run([python, "-c", FUNCTIONS], env=env, check=True, capture_output=True, text=True).stdout)


def by_digest(runs: dict[str, dict]) -> dict[str, dict[str, list[str]]]:
    """Return the names of the runs by digest for each "TRAINING: OUTPUT"."""
    digests: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, result in runs.items():
        for training, parts in result.get("digests", {}).items():
            for what, value in parts.items():
                digests[f"{training}: {what}"][value].append(name)
    return digests


def markdown(runs: dict[str, dict], bites: dict[str, dict[str, str]]) -> str:
    lines = [f"{len(runs)} runs: {', '.join(runs)}", "", "| what | digest | runs that differ from the first |", "|---|---|---|"]
    for what, values in by_digest(runs).items():
        first, *others = values
        differing = "; ".join(f"`{value[:8]}` {', '.join(values[value])}" for value in others)
        lines.append(f"| {what} | `{first[:8]}` ({len(values[first])} runs) | {differing} |")
    lines += ["", f"| library functions | {' | '.join(bites)} |", f"|---|{'---|' * len(bites)}"]
    for name in next(iter(bites.values()), {}):
        lines.append(f"| {name} | {' | '.join(f'`{digests[name][:6]}`' for digests in bites.values())} |")
    return "\n".join(lines) + "\n"


def differences(runs: dict[str, dict], earlier: dict[str, dict]) -> list[tuple[str, str]]:
    """Return the outputs that differ between runs or from an earlier table, each with the kind of difference."""
    before, digests = by_digest(earlier), []
    for what, values in by_digest(runs).items():
        digests += [(what, f"{len(values)} digests")] if len(values) > 1 else []
        digests += [(what, "not as in the earlier table")] if what in before and not set(values) <= set(before[what]) else []
    return digests


def run(
    scratch: Path,
    out: Path,
    *,
    processors: tuple[str, ...] = (),
    ranks: tuple[int, ...] = (1, 2, 3),
    methods: tuple[str, ...] = (),
    python: tuple[str, ...] = (sys.executable,),
    against: Path | None = None,
    keep: Path | None = None,
) -> Iterator[dict[str, Any]]:
    runs: dict[str, dict] = {}
    bites: dict[str, dict[str, str]] = {}
    for number, program in enumerate(python):
        made_up = made_up_processors(program)
        for name in processors or made_up:
            env = os.environ | SETTINGS | with_kernels(made_up[name], (keep or scratch) / str(number))
            bites.setdefault(name, functions(env, program))
            for n in ranks:
                title, begin = f"{name}, {n} rank(s)" + (f", {program}" if number else ""), time.monotonic()
                runs[title] = check(program, n, env, scratch, methods)
                yield {"run": title, "seconds": round(time.monotonic() - begin)}
    write_json(out, {"runs": runs, "functions": bites})
    out.with_suffix(".md").write_text(markdown(runs, bites), encoding="utf-8")
    wrong = [{"what": name, "wrong": result["failed"]} for name, result in runs.items() if "failed" in result]
    for what, how in differences(runs, read_json(against)["runs"] if against else {}):
        if package := find_package(what, EXTERNAL):
            yield {"what": what, "note": f"{how} (computed by {package})"}
        else:
            wrong.append({"what": what, "wrong": how})
    yield from wrong
    yield {"runs": len(runs), "digests": len(by_digest(runs)), "problems": len(wrong)}
    if wrong:
        raise Failed(f"{len(wrong)} problems, in {out}")
