"""Dual coordinate descent for many labels at once, each certified by its duality gap.

    solver = DualSolver(Risk(rows, options, Profile()), labels, 16, options)
    for finished in solver.solve(range(labels.size), NEVER):  # labels with weights, steps and gap
        ...

`dual` describes the algorithm, `panel` holds the state of 16 labels, `rare` trains rare labels, and `newton` continues labels that
coordinate descent has not solved. `train` registers the method and has the path over λ of `hpcml tune`. The loops over rows are in
`hpcml.kernels.lanes`.
"""
