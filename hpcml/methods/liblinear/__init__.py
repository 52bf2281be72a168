"""LIBLINEAR, as scikit-learn carries it, to compare with: all rows on each rank.

Begin with `liblinear`.
"""
