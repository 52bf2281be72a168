"""Labels of rows by a trained model: tables of a dataset or of records as they come, and a model in memory.

`predict` finds the labels of rows and writes them, as a `table`; `records` reads a file or standard input block by block, and
`raw_rows` makes rows of what it reads. `loaded` is `hpcml.load`, `saved` is `hpcml.save`. Begin with `predict`, then `records`.
"""
