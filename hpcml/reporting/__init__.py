"""One HTML page about one or several runs: their training, quality and labels.

`gather` evaluates the runs on a split and collects the content, `facts` reads their folders, `statistics` computes confidence
intervals and learning curves, `draw` plots curves, and `page` makes one HTML file that needs no network. Start reading at `gather`.
"""
