"""Model files, what is in them, and how any of them is opened."""
