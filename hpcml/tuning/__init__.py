"""Choosing λ and the weight of positive rows for each label by cross-validation over the training rows: `hpcml tune`."""
