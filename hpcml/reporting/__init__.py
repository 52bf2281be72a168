"""One page about one or several runs: what was trained, how good it is, and what it looks at.

`gather` judges the runs on a split and collects all that the page says, `facts` reads their folders, `statistics` says how certain
the measures are, `draw` makes the curves, and `page` writes one HTML file that needs no network. Begin with `gather`.
"""
