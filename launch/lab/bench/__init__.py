"""Benchmarks: `python -m launch.lab bench NAME`. Each module has a function `run`; see `launch.lab.core.bench`."""
