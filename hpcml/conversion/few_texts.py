"""Texts as rows of known features, in memory: as `hpcml convert --like` makes them, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hpcml.conversion.fields import Field
from hpcml.conversion.text import TOKEN, WORDS, WORDS_AND_BREAKS, TokenSlice, count_terms, weighted
from hpcml.conversion.vocabulary import TextSettings
from hpcml.data.shard import Shard
from hpcml.partition import offsets

Values = Sequence[Sequence[str]]  # of a text, the values of each field of `TextSettings.fields`


class FewTexts:
    """Makes rows of texts. It holds the vocabulary, some 100 bytes a word; others it forgets."""

    def __init__(self, settings: TextSettings, n_labels: int) -> None:
        self.settings, self.n_labels = settings, n_labels
        words = list(settings.vocabulary.words[:])
        self.number = {word: n for n, word in enumerate(words)}
        self.places = np.append(np.arange(len(words)), -1)  # of each word, and of none
        self.find = (WORDS_AND_BREAKS if settings.pairs else WORDS).findall

    def __call__(self, texts: Sequence[Values]) -> Shard:
        """The rows of some texts, without labels. Local."""
        tokens = [self._tokens(values) for values in texts]
        lengths = np.array([len(of_text) for of_text in tokens], dtype=np.int64)
        together = np.array([token for of_text in tokens for token in of_text], dtype=TOKEN)
        counted = count_terms(TokenSlice(lengths, together, 0), self.places, self.settings.vocabulary.width, self.settings.pairs)
        sizes, indices, data = weighted(self.settings, counted)
        n_features = len(self.settings.vocabulary)
        indices = indices.astype(np.int32 if n_features < 2**31 else np.int64)
        data = np.ones(indices.size, dtype=np.float32) if data is None else data
        return Shard.of_csr((offsets(sizes), indices, data), n_features, self.n_labels)

    def _tokens(self, values: Values) -> list[int]:
        """The words of a text by number; −1 for unknown ones, and between values."""
        out: list[int] = []
        for field, of_field in zip(self.settings.fields, values, strict=True):
            end = f" {field.tag}" if field.tag else ""
            for value in of_field:
                if out:
                    out.append(-1)
                out += (self.number.get(token + end, -1) for token in self._cut(value, field))
        return out

    def _cut(self, value: str, field: Field) -> Iterable[str]:
        if field.whole:
            return [" ".join(value.split())] if value.strip() else []
        found: list[str] = self.find(value.lower())
        return found
