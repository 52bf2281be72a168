"""Plans: what a training would take, before it is queued.

`sizes` says how large a training is, from a dataset or from laws of words and labels. `memory` has the formulas of memory, disk and
model size. `pilot` trains a part on the real rows, and so measures the time. Begin with `plan`.
"""
