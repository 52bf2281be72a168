"""Single-pass learners: the Winnow family, perceptron, passive-aggressive, ROMMA (Carvalho & Cohen 2006).

`source` gives rows piece by piece, of a dataset or of svmlight text as it comes. `state` holds the learners of a rank's labels:
weights, counters, and for voted learners the lazy averages. `kernels` takes a piece through them, `run` does so until the rows end,
with checkpoints, and `saved` makes the model. Every rank reads all rows, for its own labels. Begin with `options` (the table of
them), `train` and `kernels`.
"""
