"""Scores of rows."""
