"""scikit-learn text vectorisers in model files: settings as JSON, feature names and idf. Nothing is pickled."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer

from hpcml.conversion.text import Values
from hpcml.conversion.vocabulary import PLAIN
from hpcml.data.shard import Shard
from hpcml.errors import ConfigError, DataError
from hpcml.files.hdf5 import DAMAGE
from hpcml.model.raw_input import VECTORISER, RawInput
from hpcml.model.trained import Trained

WORDS = ("strip_accents", "lowercase", "stop_words", "token_pattern", "ngram_range", "analyzer", "binary", "dtype")
HASHING = (*WORDS, "n_features", "norm", "alternate_sign")
TFIDF = ("norm", "use_idf", "sublinear_tf")
CHAINS: list[tuple[type, ...]] = [(kind,) for kind in (CountVectorizer, TfidfVectorizer, HashingVectorizer)]
CHAINS += [(CountVectorizer, TfidfTransformer), (HashingVectorizer, TfidfTransformer)]


def describe_steps(steps: Sequence[Any]) -> tuple[RawInput, list[str] | None]:
    """Return the raw input and the feature names of fitted vectoriser steps. Raises ConfigError, NotFittedError."""
    kinds, words, last = tuple(map(type, steps)), steps[0], steps[-1]
    if kinds not in CHAINS:
        expected = "CountVectorizer, TfidfVectorizer or HashingVectorizer, or one of these and TfidfTransformer"
        raise ConfigError(f"{', '.join(kind.__name__ for kind in kinds)}: these steps cannot be saved; expected {expected}")
    for name in ("preprocessor", "tokenizer", "analyzer", "strip_accents"):
        if callable(getattr(words, name)):
            raise ConfigError(f"{kinds[0].__name__}: {name} is a function, which cannot be saved; expected a string or None")
    if words.input != "content":
        raise ConfigError(f"{kinds[0].__name__}: input={words.input!r} cannot be saved; expected 'content'")
    hashed, weighted = kinds[0] is HashingVectorizer, kinds[-1] in (TfidfVectorizer, TfidfTransformer)
    settings = {name: getattr(words, name) for name in (HASHING if hashed else WORDS)} | {"dtype": np.dtype(words.dtype).name}
    stop_words = [] if isinstance(words.stop_words, (str, type(None))) else sorted(words.stop_words)
    settings["stop_words"] = None if stop_words else words.stop_words
    about = {"words": settings, "tfidf": {name: getattr(last, name) for name in TFIDF} if weighted else None}
    attributes = {"weighting": "scikit-learn", VECTORISER: json.dumps(about, default=np.generic.item)}
    names = None if hashed else words.get_feature_names_out().tolist()
    return RawInput(attributes, None, last.idf_ if weighted and last.use_idf else None, stop_words), names


class Vectoriser:
    """Converts texts to rows with the vectoriser of a model, with the interface of `FewTexts`."""

    fields = PLAIN

    def __init__(self, model: Trained, raw_input: RawInput, to_shard: Callable[[Any], Shard]) -> None:
        self.names, self.to_shard, self.n_features = raw_input.names, to_shard, model.n_features
        try:
            about = json.loads(raw_input.attributes[VECTORISER])
            words, tfidf = about["words"], about["tfidf"]
            settings = {name: words[name] for name in (HASHING if self.names is None else WORDS)}
            settings |= {"ngram_range": tuple(words["ngram_range"]), "stop_words": raw_input.stop_words or words["stop_words"]}
            settings["dtype"] = np.dtype(words["dtype"]).type
            counting = HashingVectorizer if self.names is None else partial(CountVectorizer, vocabulary=self.names)
            self._steps: list[Any] = [counting(**settings)]
            self._steps += [] if tfidf is None else [TfidfTransformer(**{name: tfidf[name] for name in TFIDF})]
            for step in self._steps:
                step._validate_params()
            self._steps[-1].n_features_in_ = self.n_features  # normally set by `fit`
            if tfidf is not None and tfidf["use_idf"]:
                self._steps[-1].idf_ = raw_input.idf
            self([[[], ["a text"]]])  # raises an error for inconsistent settings
        except (*DAMAGE, re.error) as error:
            raise DataError(f"{model.path}: damaged vectoriser ({' '.join(str(error).split())}); save it again") from None

    def __call__(self, texts: Sequence[Values]) -> Shard:
        """Return the rows of texts; the values of a text are joined by line breaks."""
        X: Any = ["\n".join(value for field in values for value in field) for values in texts]
        for step in self._steps if X else ():  # scikit-learn raises an error without rows
            X = step.transform(X)
        return self.to_shard(X if len(texts) else sp.csr_matrix((0, self.n_features)))

    def name(self, feature: int) -> str:
        return f"feature {feature}" if self.names is None else self.names[feature]
