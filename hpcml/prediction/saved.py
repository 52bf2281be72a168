"""`hpcml.save`: write a fitted estimator or text pipeline as a run folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from hpcml.errors import ConfigError, repeated
from hpcml.estimators.labels import CLASSES
from hpcml.estimators.saving import ModelTarget
from hpcml.files.hdf5 import vocabulary_digest
from hpcml.log import is_unicode, named
from hpcml.methods.registry import METHODS
from hpcml.model.open import open_model
from hpcml.model.raw_input import NUL, RawInput
from hpcml.prediction.raw_rows import RowMaker
from hpcml.prediction.vectoriser import describe_steps
from hpcml.run.folder import RunFolder
from hpcml.run.session import open_session


def save(
    estimator: object,
    run: Path | str,
    *,
    label_names: Sequence[str] | None = None,
    label_titles: Sequence[str] | None = None,
    force: bool = False,
) -> None:
    """Save a fitted estimator as a run folder for `hpcml.load` and the commands.

    Call it on one rank. A saved model uses float32 rows; scores differ by rounding from those of a pipeline with float64 rows.

    Parameters
    ----------
    estimator : estimator of hpcml, or Pipeline
        A fitted estimator, or a pipeline of a text vectoriser and an estimator. The vectoriser is scikit-learn's CountVectorizer,
        TfidfVectorizer or HashingVectorizer, optionally followed by a TfidfTransformer, without functions as parameters.
    run : path
        The run folder to write.
    label_names : sequence of str or None
        Names of the labels. Default: `classes_` as strings. For two classes there is one label, the second class.
    label_titles : sequence of str or None
        Titles of the labels, "" for a label without one.
    force : bool
        Replace an existing run folder.

    Raises
    ------
    ConfigError, DataError
        If the estimator is not fitted or cannot be saved, or the folder exists or cannot be written.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> texts, topics = ["ship and port", "corn and rye"] * 10, ["sea", "farm"] * 10
    >>> pipeline = make_pipeline(TfidfVectorizer(), hpcml.DualClassifier()).fit(texts, topics)
    >>> hpcml.save(pipeline, "saved")
    >>> hpcml.load("saved").top(["A ship in the port"])
    [[ScoredLabel(label='sea', title='', score=..., probability=None)]]
    """
    steps: list[Any] = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    *before, last = steps
    path, known = f"{type(last).__module__}:{type(last).__name__}", METHODS.values()
    methods = [each.name for each in known if each.estimator == path and each.parameters.items() <= vars(last).items()]
    if not methods:
        raise ConfigError(f"{type(last).__name__} cannot be saved; expected an estimator of hpcml, or a Pipeline that ends in one")
    try:
        check_is_fitted(last)
        raw_input, features = describe_steps(before) if before else (RawInput(), getattr(last, "feature_names_in_", None))
    except NotFittedError:
        raise ConfigError(f"{type(last).__name__} is not fitted; call fit before save") from None
    labels = last.classes_[-1:] if last._kind == CLASSES and len(last.classes_) == 2 else last.classes_
    for name, texts in (("label_names", label_names), ("label_titles", label_titles)):
        if texts is not None and (isinstance(texts, str) or len(texts) != len(labels)):
            raise ConfigError(f"{name}={texts!r}: expected a list of length {len(labels)}, for the labels {labels.tolist()}")
    names = [str(name) for name in (labels if label_names is None else label_names)]
    if (duplicate := repeated(names)) is not None:
        raise ConfigError(f"two labels have the name {named(duplicate)!r}; set distinct label_names")
    for name, texts in (("label_names", names), ("feature", [] if features is None else features)):
        if (invalid := next((text for text in texts if not text or "\0" in text or not is_unicode(text)), None)) is not None:
            raise ConfigError(f"{name}: {invalid!r} cannot be stored as a name; expected a non-empty Unicode string without NUL")
    if features is not None:
        raw_input.packed = np.frombuffer(NUL.join(map(str.encode, features)), np.uint8)
    vocabulary = vocabulary_digest(features, last.n_features_in_)
    with open_session(None) as session, RunFolder(session.comm, Path(run), session.log) as folder:
        if not force and folder.path.is_dir() and any(folder.path.iterdir()):
            raise ConfigError(f"{run} exists already; choose another folder or use force=True")
        config: dict[str, object] = {"method": methods[0], "estimator": " ".join(repr(estimator).split())}
        with folder.replaced(config, force) as fresh:
            titles = None if label_titles is None else list(map(str, label_titles))
            last._write_model(ModelTarget(fresh / "model.h5", methods[0], names, titles, vocabulary, raw_input))
            if before:
                _ = RowMaker(open_model(fresh)).fields  # check the vectoriser before an existing folder is replaced
