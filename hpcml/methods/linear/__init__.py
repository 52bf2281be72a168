"""What methods with a weight vector for each label share: objective, training, run, model file.

    METHOD = LinearMethod(solver=SvmperfSolver)  # a method describes itself
    report = train(METHODS["svmperf"], session, data, target, options)

`train` loads the rows (`load`), lays the run out (which ranks share rows, how many labels share a pass: `layout`), solves, and
saves labels as they finish, at last as a model (`run`). A method gives a `solver`, whose `solve` yields labels as they are done.
Begin with `method`, `solver` and `train`; the passes over the rows are in `objective` and `panel_kernels`.
"""
