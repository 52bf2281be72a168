"""The commands of `hpcml`: one module each, with one frozen dataclass.

The fields of the dataclass are the flags of the command line, the parameters of the function for
Python and the rows of the table in the documentation. `execute` does the work. Begin with `operation`,
then `predict`.
"""
