"""Cross-validation of methods on data, as a table with significance (Carvalho & Cohen 2006, Tables 3 and 4)."""

from hpcml.crossval.table import CrossValidation
from hpcml.crossval.tasks import cross_validate

__all__ = ["CrossValidation", "cross_validate"]
