"""Feature selection and pruning: `hpcml select` and `hpcml prune`.

`select` ranks features by a score (information gain, chi-square, or extremal selection with Modified Balanced Winnow) and
writes (`files`) the dataset or model with the selected features. `prune` removes small weights from a linear model and reports the
loss of quality. All data are streamed. Begin with `select` and `prune`.
"""
