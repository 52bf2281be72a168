"""LIBLINEAR, as included in scikit-learn, for comparison. All rows are on each rank."""
