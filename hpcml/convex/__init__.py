"""Convex minimisation: PROBE, its objective, and the training of many labels."""
