"""What the methods with a weight vector for each label share: the objective, the labels in training, the run, the model file.

    METHOD = LinearMethod(name="svmperf", build=svmperf)  # a method describes itself
    train = partial(linear.train, METHOD)

`train` loads the rows, lays the run out (which ranks share rows, how many labels share a pass: `plan`), trains, and writes the
model as labels finish. What a method gives is a block of labels in training, which is asked for progress and hands over labels that
are done. Begin with `method` and `train`; the passes over the rows are in `objective` and `panel_kernels`.
"""
