"""Naive Bayes of words present or not, for every label from counts; boosted, and in stages (SPEC 4)."""
