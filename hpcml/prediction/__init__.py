"""Labels of rows by a trained model: tables of predictions for datasets and for streams of records, and a model in memory.

`predict` finds the labels of rows and writes them as a `table`. `records` reads a file or standard input block by block, and
`raw_rows` converts what it reads to rows of the model. `loaded` is `hpcml.load`, `saved` is `hpcml.save`.
Begin with `predict`, then `records`.
"""
