"""Measures of a model on a split, thresholds, probabilities, and explanations; the same bits on any number of ranks.

    with DataFile("docs.h5") as dataset:
        found = evaluate(comm, open_model("runs/docs"), dataset, "test", log)
    print(found, found.macro("average_precision"))

What comes in are a model and a dataset. Scores are made block by block of rows and labels (`hpcml.model.scoring`) and become
counts, which are summed over the ranks; every measure follows from counts. Begin with `evaluate`, then `judged` and
`hpcml.measures`; thresholds and probabilities are found by `thresholds` and `decision`.
"""

from hpcml.evaluation.evaluate import Evaluation, evaluate
from hpcml.measures import MEASURES, Ranking

__all__ = ["MEASURES", "Evaluation", "Ranking", "evaluate"]
