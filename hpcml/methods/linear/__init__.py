"""The part that methods with a weight vector for each label share: objective, labels in training, run, model file.

    METHOD = LinearMethod(name="svmperf", solver=SvmperfSolver)  # a method describes itself
    train = partial(linear.train, METHOD)

`train` loads the rows, lays the run out (which ranks share rows, how many labels share a pass: `plan`), trains, and writes the
model as labels finish. A method gives a `block.Solver`, whose `solve` yields labels as they are done. Begin with `method`
and `train`; the passes over the rows are in `objective` and `panel_kernels`.
"""
