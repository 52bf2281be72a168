"""Writes the scores of rows to files, the same bytes on any number of ranks; `model.scoring` computes them.

    predict(comm, model, dataset, "test", Path("answers.csv"), False, log)

What comes in are a model and the rows of a dataset, or of svmlight text as it comes. What goes
out are scores, probabilities, flags of labels, or the best labels of each row (`texts`), chunk by
chunk of rows. Begin with `predict`.
"""
