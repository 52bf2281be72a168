"""Plans: what a training would take, before it is queued, and the constants of a machine.

`sizes` says how large a training is, from a dataset or from laws of words and labels. `measure`
finds the constants of a machine by the real kernels on generated rows. From both, and from what the
method's own `forecast` knows of its passes, `plan` computes memory, disk, messages and hours;
`report` says them in words. Begin with `plan`.
"""
