"""The part that the scikit-learn classifiers of the methods share.

A classifier derives from `distributed.DistributedClassifier` and names its parameters and its options; that checks parameters and
rows so that all ranks agree, and calls `_learn` with this rank's rows and the `labels.LabelSets` of all ranks' labels. Scores
become classes in `labels.LabelScores`. Begin with `distributed`.
"""
