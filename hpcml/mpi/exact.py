"""Order-independent sums: float64 addends rounded to a grid on which every addition is exact.

If all partial sums of a set of numbers are multiples of a power of two, g, and smaller than 2^53 g, float64 adds them without
rounding, so neither order nor number of ranks can change a bit. One level keeps about 52 - log2(bound / value) bits of each addend;
for more bits, a second level sums what the first rounded off.
"""

from __future__ import annotations

import math

import numpy as np

from hpcml.mpi.binding import MPI
from hpcml.mpi.collectives import allreduce_sum


def grid(bound: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Return (shift, spacing) for sums whose absolute values total at most `bound`: `(x + shift) - shift` rounds to multiples of
    spacing.
    """
    exponent = np.frexp(np.maximum(bound, 2.0**-900))[1] + 1  # bound < 2^(exponent - 1)
    return np.ldexp(1.5, exponent), np.ldexp(1.0, exponent - 52)


# Many sums share few grids: level k is for sums of absolute values below 2^(2 k - 128).
SHIFT_OF_LEVEL = np.array([grid(2.0 ** (2 * level - 129))[0] for level in range(256)])


def grid_levels(bounds: np.ndarray) -> np.ndarray:
    """Return the level (uint8) in SHIFT_OF_LEVEL for sums whose absolute values total at most `bounds` (the same on all ranks)."""
    exponents = np.frexp(bounds)[1]  # bounds < 2^exponents
    halves: np.ndarray = np.clip((exponents + 129) // 2, 0, 255)
    return halves.astype(np.uint8)


def lies_on_grid(shift: float, smallest: float) -> bool:
    """Return whether each float32 of magnitude `smallest` or more is on the grid of `shift`."""
    spacing = shift / 1.5 * 2.0**-52
    return spacing <= 2.0 ** (math.frexp(smallest)[1] - 24)


def exact_sum(comm: MPI.Comm, values: np.ndarray, bound: float, n_global: int) -> float:
    """Return the sum of `n_global` values, whose absolute values total at most `bound`: always the same bits. Collective over
    `comm`.
    """
    shift, spacing = grid(bound)
    high = (values + shift) - shift
    shift_low, _ = grid(n_global * spacing)
    low = ((values - high) + shift_low) - shift_low
    sums = allreduce_sum(comm, np.array([high.sum(), low.sum()]))
    return float(sums[0] + sums[1])
