"""A run folder and what happens in it."""
