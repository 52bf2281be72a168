"""The rows of documents by the definition, word by word."""

import math
import re
from collections import Counter

import numpy as np

from hpcml.conversion.vocabulary import PLAIN


def slow_terms(document, fields=PLAIN, pairs=False, stop_words=()):
    found = Counter()
    for field in fields:
        given, tag = document.get(field.name), f" {field.tag}" if field.tag else ""
        for value in given if isinstance(given, list) else [given or ""]:
            if field.whole:
                found[f"{' '.join(value.split())}{tag}"] += bool(value.strip())
                continue
            last, end, text = None, 0, value.lower()
            for match in re.finditer(r"[^\W_]+", text):
                word, gap, end = match.group(), text[end : match.start()], match.end()
                if word in stop_words:
                    last = None
                    continue
                found[f"{word}{tag}"] += 1
                if pairs and last is not None and gap.isspace():
                    found[f"{last} {word}{tag}"] += 1
                last = word
    return Counter({term: count for term, count in found.items() if count})


def slow_rows(documents, fields=PLAIN, pairs=False, stop_words=(), min_df=1, binary=False):
    counts = [slow_terms(document, fields, pairs, set(stop_words)) for document in documents]
    train = [c for c, document in zip(counts, documents, strict=True) if document.get("split") == "train"] or counts
    df = Counter(term for count in train for term in count)
    names = sorted(term for term, n in df.items() if n >= min_df)
    rows = np.zeros((len(documents), len(names)))
    for row, count in zip(rows, counts, strict=True):
        for column, term in enumerate(names):
            if term in count:
                row[column] = 1 if binary else math.log(count[term] + 1) * math.log(len(train) / df[term])
        if not binary and row.any():
            row /= np.linalg.norm(row)
    return names, rows
