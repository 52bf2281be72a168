"""How PROBE approaches its limit, beside two idealised algorithms that know it (PROBE 2012).

All three walk from w₁ = 0 along the subgradient, `w_{t+1} = w_t − η g(w_t)`, and differ in η alone.
For any η, by convexity,

    ‖w_{t+1} − w*‖² ≤ ‖w_t − w*‖² + η²‖g‖² − 2η (f(w_t) − f(w*))        (paper, equation 2)

which is least for `η = Δ/‖g‖²` with `Δ = f(w_t) − f(w*)` (equation 3). PROBE must estimate f(w*),
PROBE* is given it, and IDEAL is given w* too and takes the nearest point on the line. Nothing here
communicates by itself: if `evaluate` and `break_even` are collective and give all ranks the same
bits, all ranks take the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from hpcml.methods.probe.probe import EPSILON, ProbeState

MAX_STEPS = 5000
EVERY = 10  # steps between two measurements of the break-even

Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray]]  # w (d,) to f(w), g(w) (d,); may reuse g's memory
BreakEven = Callable[[np.ndarray], float]  # w (d,) to the break-even on rows unseen in training
StepRule = Callable[[np.ndarray, float, np.ndarray], float]  # w, f, g to η; 0 or less stops at w


@dataclass
class Trace:
    """One algorithm's way to w*; entry i of a list belongs to w_t, t = i + 1."""

    name: str
    distance: list[float] = field(default_factory=list)  # ‖w_t − w*‖ (figure 1)
    f: list[float] = field(default_factory=list)  # f(w_t) (figure 2)
    break_even: list[tuple[int, float]] = field(default_factory=list)  # (t, value) every 10 steps and at the last (figure 3)


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """a · b; not `a @ b`, whose last bits depend on where arrays lie: ranks would part."""
    return float(np.sum(a * b))


def _iterates(evaluate: Evaluate, n_weights: int, step_size: StepRule, max_steps: int) -> Iterator[tuple[np.ndarray, float, bool]]:
    """Yield (w_t, f(w_t), is it the last) from w₁ = 0; w_t changes in place afterwards."""
    w = np.zeros(n_weights)
    for t in range(1, max_steps + 1):
        f, g = evaluate(w)
        eta = step_size(w, f, g)
        last = not eta > 0.0 or t == max_steps
        yield w, f, last
        if last:
            return
        w -= eta * g


def _trace(name: str, evaluate: Evaluate, w_star: np.ndarray, step_size: StepRule, max_steps: int, break_even: BreakEven) -> Trace:
    trace = Trace(name)
    for t, (w, f, last) in enumerate(_iterates(evaluate, w_star.size, step_size, max_steps), start=1):
        away = w - w_star
        trace.distance.append(math.sqrt(_dot(away, away)))
        trace.f.append(float(f))
        if t % EVERY == 0 or last:
            trace.break_even.append((t, float(break_even(w))))
    return trace


def _probe_step(epsilon: float) -> StepRule:
    """A fresh Algorithm 1: `η = (f(w_t) − (1−φ) f_min)/‖g‖²`; 0 once φ < ε or w is optimal."""
    state = ProbeState(epsilon=epsilon)
    return lambda _w, f, g: state.advance(f, _dot(g, g)).eta


def _ratio(gap: float, grad_sq: float) -> float:
    return gap / grad_sq if grad_sq else 0.0  # no subgradient: w is optimal


def probe_limit(
    evaluate: Evaluate, n_weights: int, epsilon: float = EPSILON, max_steps: int = MAX_STEPS
) -> tuple[np.ndarray, float]:
    """(w*, f(w*)): the w_t with the least f of a PROBE run, which `trace_probe` passes through."""
    w_star, f_star = np.zeros(n_weights), np.inf
    for w, f, _ in _iterates(evaluate, n_weights, _probe_step(epsilon), max_steps):
        if f < f_star:
            w_star[:], f_star = w, f
    return w_star, f_star


def trace_probe(
    evaluate: Evaluate, w_star: np.ndarray, break_even: BreakEven, epsilon: float = EPSILON, max_steps: int = MAX_STEPS
) -> Trace:
    """Follow PROBE (Algorithm 1, no row dormant) until φ < `epsilon`, or for `max_steps` steps."""
    return _trace("PROBE", evaluate, w_star, _probe_step(epsilon), max_steps, break_even)


def trace_probe_star(evaluate: Evaluate, w_star: np.ndarray, f_star: float, n_steps: int, break_even: BreakEven) -> Trace:
    """Follow PROBE*, `η = (f(w_t) − f(w*))/‖g‖²` (equation 3), until f(w_t) ≤ f(w*)."""
    return _trace("PROBE*", evaluate, w_star, lambda _w, f, g: _ratio(f - f_star, _dot(g, g)), n_steps, break_even)


def trace_ideal(evaluate: Evaluate, w_star: np.ndarray, f_star: float, n_steps: int, break_even: BreakEven) -> Trace:
    """Follow IDEAL, `η = g · (w_t − w*)/‖g‖²`: the line's point nearest to w*; stops like PROBE*.

    By convexity this η is at least that of PROBE*, so it is above 0 as long as f(w_t) > f(w*).
    """

    def project(w: np.ndarray, f: float, g: np.ndarray) -> float:
        return _ratio(_dot(g, w - w_star), _dot(g, g)) if f > f_star else 0.0

    return _trace("IDEAL", evaluate, w_star, project, n_steps, break_even)


def trace_all(
    evaluate: Evaluate, w_star: np.ndarray, break_even: BreakEven, epsilon: float = EPSILON, max_steps: int = MAX_STEPS
) -> list[Trace]:
    """The traces of figures 1 to 3; idealised algorithms take no more steps than PROBE did."""
    f_star, _ = evaluate(w_star)
    probe = trace_probe(evaluate, w_star, break_even, epsilon, max_steps)
    idealised = (trace_probe_star, trace_ideal)
    return [probe, *(trace(evaluate, w_star, f_star, len(probe.f), break_even) for trace in idealised)]
