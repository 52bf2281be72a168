"""Sweeps over a block of weights (d, B) and its summed subgradient: norms, steps, copies. Lanes do not depend on one another."""

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
def gradient_squares(W, G, decay, scale, out):
    """out[l] = ‖decay W[:, l] + scale G[:, l]‖² for W, G (d, B)."""
    lanes = np.uint64(W.shape[1])
    w, g = W.reshape(W.size), G.reshape(G.size)
    out[:] = 0.0
    for row in range(np.uint64(0), np.uint64(W.size), lanes):
        for lane in range(lanes):
            value = decay * w[row + lane] + scale * g[row + lane]
            out[lane] += value * value


@njit(cache=True, error_model="numpy")
def step(W, G, eta, decay, scale, out):
    """W −= eta (decay W + scale G) per lane; out[l] = ‖W[:, l]‖² afterwards; W, G (d, B)."""
    lanes = np.uint64(W.shape[1])
    w, g = W.reshape(W.size), G.reshape(G.size)
    out[:] = 0.0
    for row in range(np.uint64(0), np.uint64(W.size), lanes):
        for lane in range(lanes):
            value = w[row + lane] - eta[lane] * (decay * w[row + lane] + scale * g[row + lane])
            w[row + lane] = value
            out[lane] += value * value


@njit(cache=True, error_model="numpy")
def copy_lanes(W, lanes, columns, out):
    """out[:, columns[i]] = W[:, lanes[i]] for all i, in one sweep."""
    for j in range(W.shape[0]):
        for i in range(lanes.size):
            out[j, np.uint64(columns[i])] = W[j, np.uint64(lanes[i])]
