"""The HDF5 sparse dataset, on disk and in memory: rows of a rank, labels, classes, svmlight text.

    with DataFile("docs.h5") as dataset:
        shard = load_shard(comm, dataset, "train")  # this rank's rows, mapped from the file
    rows, columns = compact_rows(comm, shard, bias=True)  # copied without unused features

What comes in is a file that `conversion` made. What goes out are CSR arrays: a `Shard` to score, `CompactRows` to train on, with a
`ColumnMap` back to the features of the file. Begin with `dataset`, `shard` and `compact`.
"""
