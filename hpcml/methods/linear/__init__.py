"""What the methods with a weight vector for each label share: the objective, the labels in training, the run, the model file.

    METHOD = LinearMethod(name="svmperf", solver=SvmperfSolver)  # a method describes itself
    report = train(METHOD, session, data, target, options)

`train` loads the rows (`load`), lays the run out (which ranks share rows, how many labels share a pass: `plan`), solves, and writes
the model as labels finish (`run`, `model_file`). What a method gives is a `solver`, which is asked for its turns and hands over the
labels that are done. Begin with `method`, `solver` and `train`; the passes over the rows are in `objective` and `panel_kernels`.
"""
