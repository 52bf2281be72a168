"""Dual coordinate descent for many labels at once, each certified by its duality gap.

    block = dual(Risk(rows, options, Profile()), labels, 16, options, options.steps)
    while block.busy:
        finished = block.turn(seconds)  # labels that are done: weights, steps, objective, gap

What comes in are the compact rows of a rank group, labels and `DualOptions`. 16 labels go through a round together (`panel`), first
all, then in later rounds those that need longer. Begin with `dual`, which says how rounds work, then `panel`; `logistic` is what
differs for the logistic loss, `path` serves `hpcml tune`, and the loops over rows are in `hpcml.kernels.lanes`.
"""
