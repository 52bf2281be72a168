"""The methods of `hpcml train`."""
