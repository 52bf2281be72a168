"""`hpcml.save`: the run folder of a fitted estimator, or of a pipeline of a text vectoriser and an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from hpcml.errors import ConfigError, repeated
from hpcml.estimators.labels import CLASSES, LabelScores
from hpcml.estimators.saving import ModelTarget
from hpcml.files.hdf5 import vocabulary_digest
from hpcml.log import is_unicode, named
from hpcml.methods.registry import METHODS
from hpcml.model.open import open_model
from hpcml.model.raw_input import RawInput
from hpcml.prediction.raw_rows import RowMaker
from hpcml.prediction.vectoriser import describe_steps
from hpcml.run.folder import RunFolder
from hpcml.run.session import session_of


def save(
    estimator: Any,
    run: Path | str,
    *,
    label_names: Sequence[str] | None = None,
    label_titles: Sequence[str] | None = None,
    force: bool = False,
) -> None:
    """Save a fitted estimator as a run folder, which `hpcml.load` and the commands read.

    `serve` and `predict` then take raw texts, or tables with the columns of the data frame that the estimator was fitted on.
    `threshold`, `calibrate`, `evaluate` and `report` take a dataset with the same features:
    `hpcml.Dataset.from_sparse(vectoriser.transform(texts), labels, path,
    feature_names=vectoriser.get_feature_names_out())`. Rows have float32 values there, so that scores can differ from those of
    the pipeline by the rounding of the values. Call it on one rank.

    Parameters
    ----------
    estimator : estimator of hpcml, or Pipeline
        A fitted estimator, or a pipeline of a text vectoriser and an estimator. The vectoriser is scikit-learn's CountVectorizer,
        TfidfVectorizer or HashingVectorizer, also followed by a TfidfTransformer, without functions as parameters.
    run : path
        The run folder to make.
    label_names : sequence of str or None
        The names of the labels. Default: `classes_` as texts. Of two classes only the second is a label.
    label_titles : sequence of str or None
        Titles of the labels, "" for none.
    force : bool
        Replace an existing run folder.

    Raises
    ------
    ConfigError, DataError
        If the estimator is not fitted or cannot be saved, or the folder exists or cannot be written.

    Examples
    --------
    >>> pipeline = make_pipeline(TfidfVectorizer(), hpcml.DualClassifier()).fit(texts, topics)
    >>> hpcml.save(pipeline, "run")
    >>> hpcml.load("run").top(["A library of linear algebra"])
    """
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    *before, last = [step for step in steps if step not in (None, "passthrough")] or [None]
    if not isinstance(last, LabelScores):
        raise ConfigError(f"{type(last).__name__} cannot be saved; expected an estimator of hpcml, or a Pipeline that ends in one")
    try:
        check_is_fitted(last)
        found = describe_steps(before) if before else RawInput(packed=RawInput.pack(getattr(last, "feature_names_in_", None)))
    except NotFittedError:
        raise ConfigError("the estimator is not fitted; call fit before save") from None
    features, n_features = found.names, int(last.n_features_in_)
    if features is not None and len(features) != n_features:
        raise ConfigError(f"the vectoriser has {len(features)} features, but the estimator {n_features}; fit them as one pipeline")
    names = _label_names(last, label_names)
    titles = None if label_titles is None else [str(title) for title in label_titles]
    if titles is not None and len(titles) != len(names):
        raise ConfigError(f"label_titles has {len(titles)} titles, but the estimator has {len(names)} labels")
    method = next(
        name
        for name, method in METHODS.items()
        if method.estimator == f"{type(last).__module__}:{type(last).__name__}"
        and all(getattr(last, key) == value for key, value in method.parameters.items())
    )
    with session_of(None) as session, RunFolder(session.comm, Path(run), session.log) as folder:
        if not force and folder.path.is_dir() and any(folder.path.iterdir()):
            raise ConfigError(f"{run} exists already; choose another folder, or give force=True")
        with folder.replaced({"method": method, **_parameters(last)}, force) as fresh:
            target = ModelTarget(fresh / "model.h5", method, names, titles, vocabulary_digest(features, n_features), found)
            last._write_model(target)
            _ = RowMaker(open_model(target.path)).fields if before else open_model(target.path).raw_input  # can it be read?


def _label_names(estimator: LabelScores, given: Sequence[str] | None) -> list[str]:
    """Return the names of an estimator's labels. Raises ConfigError."""
    classes = estimator.classes_
    labels = classes[-1:] if estimator._kind == CLASSES and len(classes) <= 2 else classes
    names = [str(name) for name in (labels if given is None else [given] if isinstance(given, str) else given)]
    if len(names) != len(labels):
        raise ConfigError(f"label_names has {len(names)} names, but the estimator has {len(labels)} labels")
    bad = repeated(names) or next((name for name in names if not name.strip() or "\0" in name or not is_unicode(name)), None)
    if bad is not None:
        raise ConfigError(f"{named(bad)!r} is no name of a label, or of two; give label_names, unlike texts that UTF-8 can hold")
    return names


def _parameters(estimator: Any) -> dict[str, object]:
    """Return the parameters of an estimator, as config.toml holds them."""
    found = {name: value for name, value in estimator.get_params(deep=False).items() if name not in ("comm", "method")}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in found.items() if value is not None}
    return {name: value if isinstance(value, (str, bool, int, float)) else str(value) for name, value in plain.items()}
