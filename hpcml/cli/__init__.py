"""The commands of `hpcml`."""
