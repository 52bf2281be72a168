"""Sweeps over a panel's weights and summed subgradient, both flat and feature-major.

Sums over features are made in fixed chunks of CHUNK features, so ranks with different features get the same bits. A range of
features starts at a chunk.
"""

import numpy as np

from hpcml.kernels import njit

CHUNK = 4096  # features


@njit
def gradient_squares(w, g, lanes, decay, scale):
    """Return ‖decay w[:, l] + scale g[:, l]‖² of chunk c at [c, l]."""
    step, out = np.uint64(lanes), np.empty((-(-w.size // (CHUNK * lanes)), lanes))
    for chunk in range(out.shape[0]):
        total = out[chunk]
        total[:] = 0.0
        first, last = np.uint64(chunk * CHUNK * lanes), np.uint64(min((chunk + 1) * CHUNK * lanes, w.size))
        for row in range(first, last, step):
            for lane in range(step):
                value = decay * np.float64(w[row + lane]) + scale * g[row + lane]
                total[lane] += value * value
    return out


@njit
def step(w, g, lanes, eta, decay, scale):
    """w −= eta (decay w + scale g) per lane; return the new ‖w[:, l]‖² of chunk c at [c, l]."""
    stride, out = np.uint64(lanes), np.empty((-(-w.size // (CHUNK * lanes)), lanes))
    for chunk in range(out.shape[0]):
        total = out[chunk]
        total[:] = 0.0
        first, last = np.uint64(chunk * CHUNK * lanes), np.uint64(min((chunk + 1) * CHUNK * lanes, w.size))
        for row in range(first, last, stride):
            for lane in range(stride):
                old = np.float64(w[row + lane])
                w[row + lane] = old - eta[lane] * (decay * old + scale * g[row + lane])
                new = np.float64(w[row + lane])
                total[lane] += new * new
    return out


@njit
def copy_lanes(w, lanes, chosen, out):
    stride = np.uint64(lanes)
    for row in range(np.uint64(0), np.uint64(w.size), stride):
        for lane in range(stride):
            out[row + lane] = w[row + lane] if chosen[lane] else out[row + lane]
