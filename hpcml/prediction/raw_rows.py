"""Rows of a model made from texts, documents, tables or matrices in memory: the same bits as by `hpcml convert --like`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.conversion.jsonl import parse_document
from hpcml.conversion.number_rows import NumberSlice
from hpcml.conversion.table import Batch, texts_of_row
from hpcml.conversion.text import FewTexts, Values, settings_of_model
from hpcml.conversion.vocabulary import PLAIN, Field
from hpcml.data.dataset import DataFile
from hpcml.data.in_memory import canonical, sound_csr
from hpcml.data.shard import NO_ROWS, Shard, load_shard
from hpcml.errors import ConfigError, DataError, nearest_name
from hpcml.log import named
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model
from hpcml.model.open import require_raw_input
from hpcml.model.raw_input import VECTORISER
from hpcml.options import split_record
from hpcml.partition import offsets

if TYPE_CHECKING:
    from hpcml.prediction.vectoriser import Vectoriser

DEFAULT_TEXTS = ("title", "text")  # columns of texts, where the model does not know any
ZEROS = "use hpcml convert --like with"


class RowMaker:
    """Makes rows of a model. It holds the vocabulary, some 100 bytes a word, once texts came."""

    def __init__(self, model: Model | ClassifierModel) -> None:
        self.model = model

    @cached_property
    def few_texts(self) -> FewTexts | Vectoriser:
        """Makes rows of texts. Raises ConfigError if the model was not trained on texts, DataError."""
        if (found := self.model.raw_input) is not None and VECTORISER in found.attributes:
            from hpcml.prediction.vectoriser import Vectoriser  # with scikit-learn, which takes a second

            return Vectoriser(self.model, found, self.matrix)
        settings = settings_of_model(self.model)
        if settings.headings:
            raise ConfigError(f"{self.model.path}: uses the labels of a row as features, which texts do not have; use a dataset")
        return FewTexts(settings, self.model.n_labels)

    @property
    def is_text(self) -> bool:
        """Whether the model was trained on texts."""
        return self.model.raw_input is not None and self.model.raw_input.is_text

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of texts."""
        return self.few_texts.fields

    def text_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of texts, of a table with these. Raises ConfigError."""
        if self.fields != PLAIN:
            expected = found = tuple(field.name for field in self.fields)
        else:
            known = self.model.raw_input.attributes.get("text_columns", "")
            expected = tuple(split_record(str(known))) or DEFAULT_TEXTS
            found = expected if known else tuple(name for name in expected if name in names)
        if not found or not set(found) <= set(names):
            missing = next(name for name in expected if name not in names)
            near = nearest_name(missing, names)
            hint = f"did you mean {named(near)!r}? Rename it" if near else f"expected {', '.join(map(named, expected))}"
            raise ConfigError(f"no column {named(missing)!r} with texts, as the model was trained on; {hint}")
        return found

    def strings_or_documents(self, given: Sequence[Any]) -> Shard:
        """Return rows of texts that are strings, or documents as in JSON lines. Raises ConfigError, DataError."""
        found: list[Values] = []
        for place, value in enumerate(given):
            if isinstance(value, str):
                if self.fields != PLAIN:
                    names = ", ".join(field.name for field in self.fields)
                    raise ConfigError(f"the model tells fields apart; give each text as a dictionary with the keys {names}")
                found.append([[], [value]])
                continue
            if not isinstance(value, Mapping):
                keys = ", ".join(field.name for field in self.fields)
                kind = type(value).__name__
                raise DataError(f"text {place} (from 0): {kind}, but expected a string, or a dictionary with the keys {keys}")
            try:
                found.append(parse_document(value, self.fields).values)
            except ValueError as error:
                raise DataError(f"text {place} (from 0): {error}") from None
        return self.few_texts(found)

    @cached_property
    def column_of(self) -> dict[str, int]:
        """The column of each feature by its name. Raises ConfigError, DataError."""
        names = require_raw_input(self.model).names
        if names is None:
            raise ConfigError(f"{self.model.path}: its features have no names; give svmlight text, a matrix or a dataset")
        return {name: column for column, name in enumerate(names)}

    def feature_columns(self, names: Sequence[str]) -> list[str]:
        """Return the names of the features, all of which a table must have. Raises DataError, ConfigError."""
        there = set(names)
        for name in self.column_of:
            if name not in there:
                raise DataError(f"no column {named(name)!r}, a feature of the model; add it, or {ZEROS} --missing-columns-as-zero")
        return list(self.column_of)

    def table(self, batch: Batch, names: Sequence[str]) -> Shard:
        """Return rows of a table with these columns, of which `batch` has those that are read. Raises DataError."""
        if self.is_text:
            columns, told_apart = self.text_columns(names), self.fields != PLAIN
            return self.few_texts([texts_of_row(batch, row, columns, told_apart) for row in range(batch.n_rows)])
        blocks = list(batch.numbers(list(self.column_of), False, f"{ZEROS} --missing-as-zero"))
        lengths, indices, data = map(np.concatenate, zip(*(blocks or [NumberSlice.of_csr(*NO_ROWS)]), strict=True))
        return Shard.of_csr((offsets(lengths), indices, data), self.model.n_features, self.model.n_labels)

    def matrix(self, X: Any) -> Shard:
        """Return the rows of a matrix of the model's features. Raises DataError."""
        found = canonical(sp.csr_matrix(sound_csr(X, "X"), dtype=np.float32))
        if found.shape[1] != self.model.n_features:
            raise DataError(f"X has {found.shape[1]} columns, but the model has {self.model.n_features} features")
        if not np.isfinite(found.data).all():
            raise DataError("X: a value is not a finite number that float32 can hold")
        csr = found.indptr.astype(np.int64), found.indices, found.data
        return Shard.of_csr(csr, self.model.n_features, self.model.n_labels)

    def frame(self, frame: Any) -> Shard:
        """Return the rows of a data frame of texts or numbers. Raises ConfigError, DataError."""
        names = [str(name) for name in frame.columns]
        chosen = self.text_columns(names) if self.is_text else self.feature_columns(names)
        columns: dict[str, Any] = {name: frame.iloc[:, names.index(name)] for name in chosen}
        try:
            for name, column in columns.items():
                columns[name] = column.tolist() if self.is_text else column.to_numpy(dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"the frame: expected columns of numbers ({error})") from None
        return self.table(Batch(len(frame), columns, lambda row: f"the frame: row {row}"), names)

    def rows(self, X: Any, split: str = "all") -> Shard:
        """Return rows of a list of texts or documents, a matrix, a data frame, or a split of a dataset."""
        if isinstance(X, DataFile):
            self.model.check_vocabulary(X)
            return load_shard(mpi.self_comm(), X, split, unlabelled=True)
        if isinstance(X, (str, Mapping)):
            raise ConfigError("expected a list of texts; put a single one into a list")
        if hasattr(X, "iloc") and hasattr(X, "columns"):
            return self.frame(X)
        if sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
            return self.matrix(X)
        if isinstance(X, bytes) or not isinstance(X, Iterable):
            raise ConfigError(f"X is {type(X).__name__}, but expected a list of texts, a matrix, a data frame or a dataset")
        return self.strings_or_documents(list(X))
