"""Naive Bayes with binary features, trained from counts; also boosted and in stages (Wilbur 2000).

`solvers` trains the labels of a rank one after the other: plain, boosted by AdaBoost, or in stages, where each later stage is
trained on the rows that the stage before scores as positive. A label's model is one sparse weight vector, or several with the rule
that combines their scores. Begin with `solvers`.
"""
