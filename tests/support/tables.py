"""Tables that commands write, read by Python's csv."""

import csv


def table(path):
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))
