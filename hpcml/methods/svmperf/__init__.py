"""SVMperf's 1-slack cutting planes (Joachims 2006), to compare with, on PROBE's passes.

`cutting` is the method of one label without its vectors: the small dual problem over the planes.
`svmperf` keeps the planes of the labels in training, which are subgradients that `linear` computes.
Begin with `svmperf`.
"""
