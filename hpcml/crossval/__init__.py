"""Methods cross-validated on data, with significance (Carvalho & Cohen 2006).

    found = cross_validate(comm, ["dual", "multinomial-nb"], ["docs.h5"], folds=5)
    print(found)

`problems` makes a task of each label of a file, `methods` a classifier of each name. The tasks (data,
label, fold, method) are divided over the ranks (`tasks`), and the table does not depend on how. Begin with `validate`.
"""
