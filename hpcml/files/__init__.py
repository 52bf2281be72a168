"""Storage: functions that all readers and writers of files share.

    with new_file(comm, "out.h5") as out:  # appears under its name when complete
        out.layout({"W": Slab((n_labels, n_columns), "<f4")})
        out.write("W", first, rows)  # each rank writes its own rows

Readers compare claimed sizes with the file before they allocate memory (`untrusted`, `opening`); writers use a temporary name
(`atomic`, `temporary`), all ranks in one HDF5 file (`slabs`). Lines of text are divided by bytes (`lines`). Kinds of hpcml files
are known here only by their stamp (`hdf5`). Begin with `atomic` and `slabs`.
"""
