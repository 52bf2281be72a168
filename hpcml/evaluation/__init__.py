"""Ranking measures of a model on a split: exact, in parallel, the same bits on any number of ranks."""

from hpcml.evaluation.evaluate import Evaluation, evaluate
from hpcml.evaluation.ranking import MEASURES, Ranking
from hpcml.evaluation.report import format_evaluation, write_csv, write_json

__all__ = ["MEASURES", "Evaluation", "Ranking", "evaluate", "format_evaluation", "write_csv", "write_json"]
