"""The commands of `hpcml`: one module each, with one frozen dataclass.

The fields of the dataclass are the flags of the command line, the parameters of the Python function and the rows of the table in
the documentation; `execute` runs the command. The options of methods and sources, and those of `cv`, `plan`, `select` and `tune`,
are in the folders of the code that uses them. Start with `operation`, then `predict`.
"""
