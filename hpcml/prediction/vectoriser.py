"""Text vectorisers of scikit-learn in a model: their settings as JSON, the names of the features, and idf. Nothing is pickled."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer

from hpcml.conversion.text import Values
from hpcml.errors import ConfigError, DataError
from hpcml.files.hdf5 import DAMAGE
from hpcml.model.raw_input import VECTORISER, RawInput

# The parameters on which `transform` depends; those with an underscore are attributes of a file or are set otherwise.
WORDS = ("strip_accents", "lowercase", "stop_words", "token_pattern", "ngram_range", "analyzer", "binary", "dtype")
HASHED = ("n_features", "norm", "alternate_sign")
TFIDF = ("norm", "use_idf", "sublinear_tf")
VECTORISERS = (CountVectorizer, TfidfVectorizer, HashingVectorizer)
PATTERNS = "CountVectorizer, TfidfVectorizer or HashingVectorizer, also followed by TfidfTransformer"


def describe_steps(steps: Sequence[Any]) -> RawInput:
    """Return the raw input of a model behind these fitted steps. Raises ConfigError, or NotFittedError."""
    kinds = [type(step) for step in steps]
    if kinds[0] not in VECTORISERS or kinds[1:] not in ([], [TfidfTransformer]) or kinds == [TfidfVectorizer, TfidfTransformer]:
        raise ConfigError(f"steps {', '.join(kind.__name__ for kind in kinds)}: expected one text vectoriser: {PATTERNS}")
    words = steps[0]
    hashed, weights = kinds[0] is HashingVectorizer, steps[-1] if kinds[-1] in (TfidfVectorizer, TfidfTransformer) else None
    for name in ("preprocessor", "tokenizer", "analyzer", "strip_accents"):
        if callable(getattr(words, name)):
            raise ConfigError(f"{kinds[0].__name__}: {name} is a function, which a model cannot hold; choose other parameters")
    if words.input != "content":
        raise ConfigError(f"{kinds[0].__name__}: input={words.input!r}, but a model takes texts; expected 'content'")
    settings = {name: getattr(words, name) for name in (*WORDS, *(HASHED if hashed else ()))}
    stop_words = settings["stop_words"]
    if not (stop_words is None or isinstance(stop_words, str)):
        settings["stop_words"] = None
    settings["dtype"] = np.dtype(settings["dtype"]).name
    about = {"hashed": hashed, "words": settings, "tfidf": weights and {name: getattr(weights, name) for name in TFIDF}}
    return RawInput(
        {"weighting": "scikit-learn", VECTORISER: json.dumps(about, default=np.generic.item)},
        None if hashed else RawInput.pack(words.get_feature_names_out().tolist()),
        weights.idf_ if weights is not None and weights.use_idf else None,
        [] if settings["stop_words"] is stop_words else sorted(stop_words),
    )


class Vectoriser:
    """Makes rows of texts as the steps did that `describe_steps` described."""

    def __init__(self, found: RawInput, n_features: int, path: Path) -> None:
        """Raises DataError if the settings are damaged."""
        self.names = found.names
        try:
            about = json.loads(found.attributes[VECTORISER])
            hashed, words, tfidf = (about[name] for name in ("hashed", "words", "tfidf"))
            settings = {name: words[name] for name in (*WORDS, *(HASHED if hashed else ()))}
            settings |= {"dtype": np.dtype(words["dtype"]).type, "ngram_range": tuple(words["ngram_range"])}
            settings["stop_words"] = found.stop_words or words["stop_words"]
            if (n_features if hashed else None) != settings.get("n_features") or (self.names is None) != hashed:
                raise ValueError("its features are not those of the model")
            self._words: Any = HashingVectorizer(**settings) if hashed else CountVectorizer(vocabulary=self.names, **settings)
            self._words._validate_params()
            self._words.build_analyzer()
            self._weights = None if tfidf is None else TfidfTransformer(**{name: tfidf[name] for name in TFIDF})
            if self._weights is not None:
                self._weights._validate_params()
                self._weights.n_features_in_ = n_features  # what `fit` would have set
                if self._weights.use_idf:
                    if found.idf is None:
                        raise ValueError("idf is missing")
                    self._weights.idf_ = found.idf
        except (*DAMAGE, re.error, RecursionError) as error:
            raise DataError(f"{path}: damaged vectoriser ({' '.join(str(error).split())}); save it again") from None

    def __call__(self, texts: Sequence[Values]) -> sp.csr_matrix:
        """Return the rows of texts, whose values are joined by line breaks."""
        strings = ["\n".join(value for of_field in values for value in of_field) for values in texts]
        if not strings:
            return sp.csr_matrix((0, self._weights.n_features_in_ if self.names is None else len(self.names)))
        X = self._words.transform(strings)
        return X if self._weights is None else self._weights.transform(X, copy=False)

    def name(self, feature: int) -> str:
        """Return the name of a feature, or its number if it has none."""
        return f"feature {feature}" if self.names is None else self.names[feature]
