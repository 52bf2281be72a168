"""Shared parts of methods with a weight vector per label: objective, solver interface, training, run files.

    METHOD = LinearMethod(solver=SvmperfSolver)  # how a method describes itself
    report = train(METHODS["svmperf"], session, data, target, options)

`train` loads the rows (`load`), decides which ranks share rows and how many labels share a pass (`layout`), solves, and saves
finished labels (`run`). A method provides a `solver`, whose `solve` yields finished labels. Start with `method`, `solver` and
`train`; passes over the rows are in `objective` and `panel_kernels`.
"""
