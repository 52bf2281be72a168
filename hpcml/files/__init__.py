"""Storage: what every reader and writer of files shares."""
