"""Cross-validation of methods with significance tests (Carvalho & Cohen 2006).

    result = cross_validate(comm, ["dual", "multinomial-nb"], [(Path("docs.h5"), None)], log, options)
    print(result)

`problems` reads the labels of a file, `methods` maps a name to a classifier. The tasks (data, label, fold, method) are distributed
over the ranks (`tasks`); the result does not depend on the number of ranks. Begin with `tasks`.
"""
