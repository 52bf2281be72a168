"""Errors and speed of the elementary functions, beside NumPy's and the C library's.

    python launch/bench/elementary.py [--points 1000000]

Errors are in units in the last place (of the nearest float64), against mpmath with 120 bits: the
largest and the mean. Points are drawn where a function neither overflows nor is 0: half of them
evenly, half with even logarithms. Speed is ns a value in an array (least of 5 runs).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import mpmath
import numpy as np
import scipy.special

from hpcml.kernels import elementwise

BITS = 120
RANGES = {  # evenly between two numbers; and with even logarithms, of both signs if the third says so
    "exp": ((-745.0, 709.0), (1e-10, 700.0), True),
    "expm1": ((-40.0, 709.0), (1e-20, 700.0), True),
    "log": ((1e-3, 10.0), (5e-324, 1e308), False),
    "log1p": ((-0.9999, 10.0), (1e-20, 1e308), False),
    "log2": ((1e-3, 10.0), (5e-324, 1e308), False),
    "erf": ((-6.0, 6.0), (1e-20, 6.0), True),
    "erfc": ((-6.0, 26.0), (1e-20, 26.0), True),
    "sin": ((-40.0, 40.0), (1e-20, 1e6), True),
    "cos": ((-40.0, 40.0), (1e-20, 1e6), True),
}


def points(name: str, n: int) -> np.ndarray:
    """Points of a function, n float64."""
    rng = np.random.default_rng(1)
    evenly, logarithms, signs = RANGES[name]
    with np.errstate(under="ignore"):
        wide = np.exp(rng.uniform(*np.log(logarithms), n // 2))
    if signs:
        wide *= rng.choice((-1.0, 1.0), wide.size)
    return np.concatenate([rng.uniform(*evenly, n - n // 2), wide])


def exact(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f(x) as the nearest float64, and the rest in units in its last place."""
    of = {"log2": lambda z: mpmath.log(z) / mpmath.log(2)}.get(name, getattr(mpmath, name, None))
    high, low = np.empty(x.size), np.empty(x.size)
    with mpmath.workprec(BITS + (1100 if name == "log1p" else 0)):
        for i, number in enumerate(x.tolist()):
            value = of(mpmath.mpf(number))
            high[i] = float(value)
            low[i] = float((value - mpmath.mpf(high[i])) / mpmath.mpf(float(np.spacing(abs(high[i])))))
    return high, low


def errors(value: np.ndarray, high: np.ndarray, low: np.ndarray) -> tuple[float, float]:
    """The largest and the mean error, in units in the last place."""
    units = np.abs((value - high) / np.spacing(np.abs(high)) - low)
    return float(units.max()), float(units.mean())


def nanoseconds(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> float:
    """ns a value, the least of 5 runs."""
    function(x)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        function(x)
        seconds.append(time.perf_counter() - began)
    return 1e9 * min(seconds) / x.size


def of_library(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """The C library's function over an array, as compiled code calls it."""
    source = f"def loop(x, out):\n    for i in range(x.size):\n        out[i] = math.{name}(x[i])\n"
    found: dict = {}
    exec("import math\n" + source, found)
    import numba

    loop = numba.njit(found["loop"])
    return lambda x: (out := np.empty(x.size), loop(x, out))[0]


def of_numpy(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """NumPy's function, or scipy's."""
    return getattr(np, name, None) or getattr(scipy.special, name)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("names", nargs="*", default=list(RANGES))
    given = parser.parse_args()
    print("| | error: largest | mean | NumPy, scipy | mean | C library | mean | ns a value | NumPy, scipy | C library |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in given.names or RANGES:
        x = points(name, given.points)
        truth = exact(name, x)
        all_of_them = getattr(elementwise, name), of_numpy(name), of_library(name)
        cells = [f"{e:.3f}" for function in all_of_them for e in errors(function(x), *truth)]
        some = np.resize(x[: x.size // 2], 100_000)
        cells += [f"{nanoseconds(function, some):.1f}" for function in all_of_them]
        print("|", " | ".join([f"`{name}`", *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
