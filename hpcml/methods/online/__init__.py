"""Single-pass learners: the Winnow family, perceptron, passive-aggressive, ROMMA (Carvalho & Cohen 2006).

`source` yields rows piece by piece, from a dataset or from an svmlight stream. `state` holds the learners of a rank's labels:
weights, counters, and lazy averages for voted learners. `kernels` updates them with the rows of a piece, `run` repeats this until
the rows end, with checkpoints, and `saved` writes the model. Every rank reads all rows and trains its own labels. Begin with
`options` (the table of learners), `train` and `kernels`.
"""
