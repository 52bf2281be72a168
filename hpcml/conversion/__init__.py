"""Sources to datasets: documents, numbers, formulas."""
