"""Fewer features and fewer weights: `hpcml select` and `hpcml prune`.

`select` ranks features by a score (`scores`: information gain, chi-square; or extremal, by a pass of Modified Balanced Winnow) and
writes the `dataset`, or the `model`, with those that stay. `prune` leaves small weights out of a linear model, and says what that
costs. All of it is streamed. Begin with `select` and `prune`.
"""
