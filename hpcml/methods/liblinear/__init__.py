"""LIBLINEAR, for comparison."""
