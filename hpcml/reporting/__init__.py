"""One page about one or several runs: what was trained, how good it is, and what it looks at."""
