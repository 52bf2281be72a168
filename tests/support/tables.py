"""Tables that commands write, read by Python's csv."""

import csv


def table(path):
    """The rows of a CSV file, by the names of their columns."""
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))
