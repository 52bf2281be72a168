"""PSBML: boosting with a spatial evolutionary algorithm on a torus of ranks (Kamath, Domeniconi & De Jong 2018).

    cycle = Synchronous(problem, problem.first_slots)  # the rows of this rank's nodes
    cycle.step()  # train, test the neighbours' rows, replace easy rows

Input: a split with one class per row, a torus (`torus`) and a base learner (`hpcml.model.learner`). `run` runs the cycles and
assesses each: one classifier is trained on all remaining rows (`snapshot`) and measured on held-out rows. The best one becomes the
model. Begin with `train`, `synchronous` and `selection`; `asynchronous` is the other mode.
"""
