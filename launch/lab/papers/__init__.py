"""The experiments of the five papers that hpcml is made of: `hpcml paper`.

A paper is one module: `probe`, `online`, `extreme`, `bayes`, `psbml`. Each of its tables and
figures is an `Exhibit`: how its numbers are made, what the paper claims, by which rule that holds,
or why it cannot be made. The printed numbers lie in `published/`. Numbers are made by commands that
a user could give (`study`), and kept as an `outcome`, of which `page` makes a page. Begin with
`exhibit`.
"""
