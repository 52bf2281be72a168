"""The experiments of the five papers behind hpcml: `python -m launch.lab paper`.

A paper is one module: `probe`, `online`, `extreme`, `bayes`, `psbml`. Each of its tables and figures is an `Exhibit` of
`launch.lab.core.exhibit`; the numbers printed in the papers are in `published/`. Begin with `launch.lab.core.exhibit`.
"""
