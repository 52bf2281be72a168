"""The HDF5 sparse dataset, on disk and in memory: a rank's rows, labels, classes, svmlight text.

    with DataFile("docs.h5") as dataset:
        shard = load_shard(comm, dataset, "train")  # this rank's rows, mapped from the file
    rows, columns = compact_rows(comm, shard, bias=True)  # copied without unused features

The input is a file that `conversion` created. The output are CSR arrays: a `Shard` for scoring, `CompactRows` for training, and a
`ColumnMap` back to the features of the file. Begin with `dataset`, `shard` and `compact`.
"""
