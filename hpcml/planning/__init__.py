"""Plans: memory, disk and time of a training, before a job is queued.

`sizes` gives the size of a training, from a dataset or from statistical laws of words and labels. `memory` has the formulas of
memory, disk and model size. `pilot` measures the time by training a part on the real rows. Begin with `plan`.
"""
