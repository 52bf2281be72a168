"""The commands of `hpcml`: one module each, with one frozen dataclass.

The fields of the dataclass are the flags of the command line, the parameters of the function for
Python and the rows of the table in the documentation. `execute` does the work. Options of a method or a source, and
those that `cv`, `plan` and `tune` share with functions, are in the `options` of their room; those of `select` in
`hpcml.reduce.select_options`. Begin with `operation`, then `predict`.
"""
