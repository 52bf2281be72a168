"""Storage: what every reader and writer of files shares.

    with new_file(comm, "out.h5") as out:  # appears under its name when complete
        out.layout({"W": Slab((n_labels, n_columns), "<f4")})
        out.write("W", first, rows)  # each rank its own

Readers check what a file claims against its bytes before they make room for it (`untrusted`, `opening`); writers work under another
name (`atomic`, `temporary`), all ranks in one HDF5 file (`slabs`). Lines of text are shared out by bytes (`lines`). No kind of file
of hpcml is known here but for its stamp (`hdf5`). Begin with `atomic` and `slabs`.
"""
