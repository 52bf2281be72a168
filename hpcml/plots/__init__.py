"""Figures, and the experiments that make them."""
