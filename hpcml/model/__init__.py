"""Model files, the classifiers that one of them may hold, and the scores of rows (`scoring`).

    model = open_model("runs/docs")  # or a file: a `Model`, or a `ClassifierModel`
    weights = model.weights()

    learner = parse_learner(["tree", "max_depth=5"])  # a base learner of PSBML
    classifier = fit(learner, X, y, seed)
    sure = confidence(classifier, X)

A `Model` has a weight vector for each label, or several with a rule (`combination`). Nothing is unpickled: classifiers of
scikit-learn are checked by `skops_file`. Begin with `open`, `trained`, `linear` and `classifier`.
"""
