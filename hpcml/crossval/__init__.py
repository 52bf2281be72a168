"""Cross-validation of methods on data, as a table with significance (Carvalho & Cohen 2006, Tables 3, 4; Wilbur 2000, Table 1)."""

from hpcml.crossval.table import CrossValidation
from hpcml.crossval.top_table import TopPrecision
from hpcml.crossval.validate import cross_validate, cross_validate_top

__all__ = ["CrossValidation", "TopPrecision", "cross_validate", "cross_validate_top"]
