"""The experiments of the five papers behind hpcml: `python -m launch.lab paper`.

The papers are `probe`, `online`, `extreme`, `bayes` and `psbml`. PAPER.toml describes its tables and figures; `table_3` of a module
makes table 3, and `TABLE_3` are the claims about it. The numbers printed in the papers are in `published/`. Begin with
`launch.lab.core.exhibit`.
"""
