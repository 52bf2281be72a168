"""Conversion of texts, documents, tables and matrices to rows of a model, with the same bits as `hpcml convert --like`."""

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
from hpcml.data.in_memory import canonical, check_csr
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

DEFAULT_TEXTS = ("title", "text")  # columns of texts if the model names none
CONVERT_LIKE = "use hpcml convert --like with"


class RowMaker:
    """Converts raw input to rows of a model. After the first text it holds the vocabulary (about 100 bytes per word)."""

    def __init__(self, model: Model | ClassifierModel) -> None:
        self.model = model

    @cached_property
    def text_vectoriser(self) -> FewTexts | Vectoriser:
        """Converts texts to rows. Raises ConfigError if the model was not trained on texts, DataError if it is damaged."""
        if (raw_input := self.model.raw_input) is not None and VECTORISER in raw_input.attributes:
            from hpcml.prediction.vectoriser import Vectoriser  # imports scikit-learn, which takes one second

            return Vectoriser(self.model, raw_input, self.convert_matrix)
        settings = settings_of_model(self.model)
        if settings.headings:
            raise ConfigError(f"{self.model.path}: labels of a row are features of the model, and texts have none; use a dataset")
        return FewTexts(settings, self.model.n_labels)

    @property
    def is_text(self) -> bool:
        return self.model.raw_input is not None and self.model.raw_input.is_text

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.text_vectoriser.fields

    def find_text_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns with texts among the columns of a table. Raises ConfigError if one is missing."""
        if self.fields != PLAIN:
            expected = columns = tuple(field.name for field in self.fields)
        else:
            known = self.model.raw_input.attributes.get("text_columns", "")
            expected = tuple(split_record(str(known))) or DEFAULT_TEXTS
            columns = expected if known else tuple(name for name in expected if name in names)
        if not columns or not set(columns) <= set(names):
            missing = next(name for name in expected if name not in names)
            near = nearest_name(missing, names)
            hint = f"rename {named(near)!r} if it is this column" if near else f"expected {', '.join(map(named, expected))}"
            raise ConfigError(f"no column {named(missing)!r} with texts, which the model needs; {hint}")
        return columns

    def convert_texts(self, texts: Sequence[Any]) -> Shard:
        values: list[Values] = []
        keys = ", ".join(field.name for field in self.fields)
        for number, text in enumerate(texts):
            if isinstance(text, str):
                if self.fields != PLAIN:
                    raise ConfigError(f"text {number} (from 0): a string; the model needs a dictionary with the keys {keys}")
                values.append([[], [text]])
                continue
            if not isinstance(text, Mapping):
                kind = type(text).__name__
                raise DataError(f"text {number} (from 0): {kind}; expected a string or a dictionary with the keys {keys}")
            try:
                values.append(parse_document(text, self.fields).values)
            except ValueError as error:
                raise DataError(f"text {number} (from 0): {error}") from None
        return self.text_vectoriser(values)

    @cached_property
    def column_of(self) -> dict[str, int]:
        """Number of each feature by name. Raises ConfigError, DataError if the model has no feature names."""
        names = require_raw_input(self.model).names
        if names is None:
            raise ConfigError(f"{self.model.path}: the features have no names; use svmlight text, a matrix or a dataset")
        return {name: column for column, name in enumerate(names)}

    def find_feature_columns(self, names: Sequence[str]) -> list[str]:
        """Return the names of the features after checking that a table has them. Raises DataError, ConfigError."""
        columns = set(names)
        for name in self.column_of:
            if name not in columns:
                raise DataError(
                    f"no column {named(name)!r}, a feature of the model; add it, or {CONVERT_LIKE} --missing-columns-as-zero"
                )
        return list(self.column_of)

    def convert_table(self, batch: Batch, names: Sequence[str]) -> Shard:
        """Convert the rows of a table with columns `names`; `batch` holds the needed columns. Raises DataError."""
        if self.is_text:
            columns, has_fields = self.find_text_columns(names), self.fields != PLAIN
            return self.text_vectoriser([texts_of_row(batch, row, columns, has_fields) for row in range(batch.n_rows)])
        blocks = list(batch.numbers(list(self.column_of), False, f"{CONVERT_LIKE} --missing-as-zero"))
        lengths, indices, data = map(np.concatenate, zip(*(blocks or [NumberSlice.of_csr(*NO_ROWS)]), strict=True))
        return Shard.of_csr((offsets(lengths), indices, data), self.model.n_features, self.model.n_labels)

    def convert_matrix(self, X: Any) -> Shard:
        matrix = canonical(sp.csr_matrix(check_csr(X, "X"), dtype=np.float32))
        if matrix.shape[1] != self.model.n_features:
            raise DataError(f"X has {matrix.shape[1]} columns, but the model has {self.model.n_features} features")
        if not np.isfinite(matrix.data).all():
            raise DataError("X: a value is not a finite float32 number")
        csr = matrix.indptr.astype(np.int64), matrix.indices, matrix.data
        return Shard.of_csr(csr, self.model.n_features, self.model.n_labels)

    def convert_frame(self, frame: Any) -> Shard:
        names = [str(name) for name in frame.columns]
        needed = self.find_text_columns(names) if self.is_text else self.find_feature_columns(names)
        columns: dict[str, Any] = {name: frame.iloc[:, names.index(name)] for name in needed}
        try:
            for name, column in columns.items():
                columns[name] = column.tolist() if self.is_text else column.to_numpy(dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"the frame: expected columns of numbers ({error})") from None
        return self.convert_table(Batch(len(frame), columns, lambda row: f"the frame: row {row}"), names)

    def make_rows(self, X: Any, split: str = "all") -> Shard:
        if isinstance(X, DataFile):
            self.model.check_vocabulary(X)
            return load_shard(mpi.self_comm(), X, split, unlabelled=True)
        if isinstance(X, (str, Mapping)):
            raise ConfigError("X is a single text; expected a list of texts")
        if hasattr(X, "iloc") and hasattr(X, "columns"):
            return self.convert_frame(X)
        if sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
            return self.convert_matrix(X)
        if isinstance(X, bytes) or not isinstance(X, Iterable):
            raise ConfigError(f"X is {type(X).__name__}; expected a list of texts, a matrix, a data frame or a dataset")
        return self.convert_texts(list(X))
