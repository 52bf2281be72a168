"""Choosing λ and the weight of positive rows for each label by cross-validation on the training rows: `hpcml tune`.

    report = tune(session, Path("docs.h5"), Target(Path("runs/docs")), TuneOptions(method="dual", folds=5))

Input: a dataset and the axes of a method (`linear.settings.Axis`). The training rows are dealt to folds (`folds`), every label is
trained outside each fold at each setting of a grid (`cross`), and the scores of the held-out rows determine the setting of each
label (`grid`), its threshold and its sigmoid. Output: a run of the method with these settings. Begin with `tune`.
"""
