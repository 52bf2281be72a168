"""Evaluation of models on a split, thresholds, probabilities and explanations, with the same bits on any number of ranks.

    with DataFile("docs.h5") as dataset:
        result = evaluate(comm, open_model("runs/docs"), dataset, "test", log)
    print(result, result.macro("average_precision"))

Scores are computed block by block of rows and labels (`hpcml.model.scoring`) and become counts, which are summed over the ranks;
every measure follows from counts. Start reading at `evaluate`, then `scored_rows` and `hpcml.measures`; `thresholds` and `decision`
find thresholds and probabilities.
"""

from hpcml.evaluation.evaluate import Evaluation, evaluate
from hpcml.measures import MEASURES, Ranking

__all__ = ["MEASURES", "Evaluation", "Ranking", "evaluate"]
