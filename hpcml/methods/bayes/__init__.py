"""Naive Bayes of features present or not, from counts; boosted, and in stages (Wilbur 2000).

`solvers` trains one label after the other on each rank: plain, boosted by AdaBoost, or in stages,
where a later stage is trained on the rows that an earlier one scores as positive. The result is a sparse
weight vector for each label, or several with the rule that combines them. Begin with `solvers`.
"""
