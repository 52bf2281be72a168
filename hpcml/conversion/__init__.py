"""From sources to a dataset: documents, tables, matrices, formulas.

    report = convert(comm, "jsonl", [Path("docs.jsonl")], Path("docs.h5"),
    ConvertOptions(test_share=0.3), False, log)

`sources` has a line for each source. Its reader takes a `Conversion` and gives a `Part`: this rank's rows with label sets, and what
all ranks know of features and labels. `convert` writes the parts of all ranks into one file, whose bytes do not depend on how many
there are. Begin with `sources`, `part` and `convert`; of texts, `text` and `vocabulary` come next.
"""
