"""The exhibits of a paper."""

from hpcml.papers.exhibit import Paper

PAPER = Paper("extreme", "", "", "", ())
