"""The laboratory: the five papers' tables and figures, and the benchmarks. It is used in a clone: `python -m launch.lab`.

It uses hpcml as a user does: `import hpcml`, and the command line in subprocesses.
"""
