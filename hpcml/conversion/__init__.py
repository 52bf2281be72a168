"""Convert documents, tables, matrices and synthetic data to a dataset.

    report = convert(comm, "jsonl", [Path("docs.jsonl")], Path("docs.h5"), ConvertOptions(test_share=0.3), False, log)

`sources` lists the sources. The reader of a source takes a `Conversion` and returns a `Part`: this rank's rows with their labels,
and the features and labels of all ranks. `convert` writes the parts of all ranks into one file, whose bytes do not depend on the
number of ranks. Begin with `sources`, `part` and `convert`; for texts, continue with `text` and `vocabulary`.
"""
