"""Naive Bayes of features present or not, from counts; boosted, and in stages (Wilbur 2000).

`solvers` trains one label after the other on each rank: plain, boosted by AdaBoost, or in stages,
where a later one looks at the rows that an earlier one takes for positive. What goes out are sparse
weights of a label, of boosted and staged ones several with the rule that combines them. Begin with
`solvers`.
"""
