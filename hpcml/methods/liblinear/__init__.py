"""LIBLINEAR, as scikit-learn carries it, to compare with: a label at a time on the rows of all
ranks, with the same objective.

Begin with `liblinear`.
"""
