"""Dual coordinate descent for many labels at once, each certified by its duality gap.

    solver = DualSolver(Risk(rows, options, Profile()), labels, 16, options)
    # turn by turn: labels that are done, with weights, steps and gap
    for finished in solver.solve(range(labels.size), NEVER):
        ...

What comes in are the compact rows of a rank group, labels and `DualOptions`. 16 labels go through a
round together, first all, then in later rounds those that need longer. Begin with `dual`, which
says what is done, then `panel`; `train` serves `hpcml tune`, too, and the loops over rows are in `hpcml.kernels.lanes`.
"""
