"""PSBML: boosting by a spatial evolutionary algorithm on a torus of ranks (Kamath, Domeniconi & De Jong 2018).

    cycle = Synchronous(problem, problem.first_slots)  # the rows of this rank's nodes
    cycle.step()  # train, test the neighbours' rows, replace the easy ones

What comes in are a split with one class for each row, a torus (`torus`) and a base learner (`hpcml.model.learner`). `run` goes
through the cycles, each followed by an assessment: one classifier of all rows that are left (`snapshot`), judged by rows set aside.
The best is kept and becomes the model. Begin with `train`, `synchronous` and `selection`; `asynchronous` is the other mode.
"""
