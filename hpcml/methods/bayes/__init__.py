"""Naive Bayes of features present or not, from counts; boosted, and in stages (Wilbur 2000).

`risk` holds what labels share: the rows as sets of features, and how weights follow from counts.
`block` trains one label after the other on each rank: plain, `boosted` by AdaBoost, or `staged`,
where a later stage looks at the rows that an earlier one takes for positive. What goes out are
sparse weights of a label, of boosted and staged ones several with the rule that combines them.
Begin with `train` and `risk`.
"""
