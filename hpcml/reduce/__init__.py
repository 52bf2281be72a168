"""Fewer features and fewer weights."""
