"""Rows that are nearly the same, and how far their labels agree."""
