"""Measurements: one pass, methods and programs side by side, the cluster."""
