"""What the scikit-learn classifiers of the methods share: label sets, agreement of ranks, scores to classes."""
