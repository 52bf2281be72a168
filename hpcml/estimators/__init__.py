"""Base classes of the scikit-learn classifiers.

A classifier derives from `distributed.DistributedClassifier` and declares its parameters with `parameters.classifier_of`. The base
class checks parameters and rows so that all ranks raise the same error, and calls `_learn` with the rank's rows and
`labels.LabelSets`. `labels.LabelScores` turns scores into classes. Begin with `distributed`.
"""
