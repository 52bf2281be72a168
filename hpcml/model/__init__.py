"""Model files, base learners, and the scores of rows.

    model = open_model("runs/docs")  # a run folder or a file; returns a Model or a ClassifierModel
    weights = model.weights()

    learner = parse_learner(["tree", "max_depth=5"])  # a base learner of PSBML
    classifier = fit(learner, X, y, seed)
    gaps = confidence(classifier, X)

A `Model` (`linear`) has one weight vector per label, or several with a rule that combines them (`combination`). A `ClassifierModel`
(`classifier`) has one classifier for all labels. Both derive from `trained.Trained`. `scoring` computes scores block by block.
Nothing is unpickled: `skops_file` checks scikit-learn classifiers before they are read. Begin with `open`, `trained`, `linear` and
`classifier`.
"""
