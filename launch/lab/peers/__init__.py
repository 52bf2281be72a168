"""Measurements: one pass, methods and programs side by side, the cluster.

`one_pass` times the kernels beside scipy, `compare` several methods of ours on the same labels,
`ovr` our methods and other programs (`programs`, each run as a process by `peers`) on the same rows
and cores. `cluster` is `hpcml check`. Begin with `ovr`.
"""
