"""The classifiers that a file may hold, and for each what its prediction reads, and its checks.

scikit-learn's compiled code (trees, gradient boosting, LIBSVM) and our kernels trust the arrays
that they are given, so an array of a file that is too short is read beyond its end. Every attribute
that prediction reads has a check here; `fit` leaves others, which are named and never read; an
attribute that is neither is taken away when a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hpcml.errors import DataError
from hpcml.model.attribute_checks import (
    CLASSES,
    WIDTH,
    ArraySizes,
    Check,
    arrays_of_classes,
    by_then,
    equal,
    exactly,
    functions,
    intercepts,
    is_anything,
    is_reals,
    is_tree,
    reals,
)

MAX_DEPTH = 5  # of estimators in estimators


class Kept(NamedTuple):
    """A class that is kept: its attributes, by whether prediction needs them.

    `reads` are the attributes that prediction reads and their checks, `carries` those that only
    `fit` uses or that inform, `then` checks the whole and the estimators in it (ValueError,
    DataError). Options need no entry (`_check_options`).
    """

    reads: Mapping[str, Check]
    carries: str = ""  # names, with blanks between
    then: Callable[[Any, ArraySizes, int], None] | None = None
    classifies: bool = True


def class_path(module: str, name: str) -> str:
    """The name that imports a class, for scikit-learn's without private modules."""
    if module.startswith("sklearn."):
        module = ".".join(part for part in module.split(".") if not part.startswith("_"))
    return f"{module}.{name}"


def path_of(kind: type) -> str:
    """The path of a class as in KEPT; of a twin, that of the class that files name."""
    filed: str | None = vars(kind).get("filed_as")
    return filed or class_path(kind.__module__, kind.__qualname__)


def kept_classifiers() -> str:
    """The classifiers that can be kept, in words."""
    rooms: dict[str, list[str]] = {}
    for path in sorted(path for path, kept in KEPT.items() if kept.classifies and path.startswith("sklearn.")):
        room, _, name = path.rpartition(".")
        rooms.setdefault(room, []).append(name)
    return ", ".join(f"{room}.{{{','.join(names)}}}" if len(names) > 1 else f"{room}.{names[0]}" for room, names in rooms.items())


def check_classifier(classifier: Any, n_features: int) -> None:
    """Refuse a classifier of a file unless it is sound, for rows of so many features.

    Takes away what prediction does not read, threads, and output. Raises DataError for a class that
    is not kept, ValueError (or what numpy raises) for a bad attribute.
    """
    _check(classifier, n_features, 0)
    if not KEPT[path_of(type(classifier))].classifies:
        raise ValueError(f"a {type(classifier).__name__} is no classifier")


def _check(part: Any, width: int, depth: int) -> None:
    """See `check_classifier`; `depth` is the number of estimators around."""
    path = path_of(type(part))
    if path not in KEPT:
        raise DataError(f"it holds a {path}, which is none of the kinds that are kept")
    if depth > MAX_DEPTH:
        raise ValueError("too many classifiers lie in one another")
    kept, options = KEPT[path], _option_names(part)
    for name in vars(part).keys() - options - kept.reads.keys() - set(kept.carries.split()):
        delattr(part, name)
    _check_options(part, options)
    n_classes = _n_classes(part)
    sizes = ArraySizes(n_classes, width, 1 if n_classes == 2 else n_classes)
    for name, check in kept.reads.items():
        if not check(getattr(part, name), sizes):
            raise ValueError(f"{name} of {type(part).__name__} is damaged")
    if kept.then is not None:
        kept.then(part, sizes, depth + 1)


def _n_classes(part: Any) -> int:
    """The number of classes, 0 of none. Raises ValueError unless they ascend."""
    if not KEPT[path_of(type(part))].classifies and not hasattr(part, "classes_"):
        return 0
    classes = part.classes_
    sound = isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size > 0 and classes.dtype.kind in "if"
    if not sound or not np.isfinite(classes).all() or not (classes[1:] > classes[:-1]).all():
        raise ValueError(f"the classes of {type(part).__name__} are damaged")
    return int(classes.size)


# Options -------------------------------------------------------------------------------------------------------------

ESTIMATORS = frozenset({"estimator", "estimator_", "base_estimator"})  # made anew to be fitted; never used in prediction
SILENT = {"n_jobs": None, "verbose": 0}  # what is done by ranks needs no threads, and hpcml says what it does


def _option_names(part: Any) -> set[str]:
    names: list[str] = getattr(type(part), "_get_param_names", list)()
    return set(names).intersection(vars(part))


def _check_options(part: Any, names: set[str]) -> None:
    """Raise ValueError unless the options are plain values that scikit-learn itself accepts."""
    if not names:
        return
    from sklearn.utils._param_validation import validate_parameter_constraints

    for name in names:
        value = getattr(part, name)
        if name in ESTIMATORS:
            _check_template(value)
        elif not (_is_plain(value) or isinstance(value, np.random.RandomState)):
            raise ValueError(f"option {name} of {type(part).__name__} is damaged")
    for name in names & SILENT.keys():
        if getattr(part, name) not in (SILENT[name], False):
            setattr(part, name, SILENT[name])
    constraints = getattr(part, "_parameter_constraints", {})
    given = {name: getattr(part, name) for name in names & constraints.keys() - ESTIMATORS}
    validate_parameter_constraints(constraints, given, caller_name=type(part).__name__)


def _check_template(part: Any) -> None:
    """Raise ValueError unless it is None or an unfitted estimator that is kept."""
    if part is None or (isinstance(part, str) and part == "deprecated"):
        return
    if path_of(type(part)) not in KEPT or vars(part).keys() - _option_names(part):
        raise ValueError(f"a {type(part).__name__} stands where an estimator should that is not fitted")
    _check_options(part, _option_names(part))


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, or a collection of them."""
    if isinstance(value, (list, tuple)):
        return all(_is_plain(inner) for inner in value)
    if isinstance(value, dict):
        return all(_is_plain(inner) for inner in value.values())
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biuf"
    return value is None or type(value) in (bool, int, float, str)


# Trees and what is made of them ----------------------------------------------------------------------------------------


def _check_members(part: Any, members: Any, widths: list[int], depth: int, kinds: tuple[str, ...] = ()) -> None:
    """Raise ValueError unless there are estimators of such widths and (if given) kinds."""
    if not isinstance(members, list) or not members or len(widths) != len(members):
        raise ValueError(f"the estimators of {type(part).__name__} are damaged")
    for member, width in zip(members, widths, strict=True):
        if kinds and type(member).__name__ not in kinds:
            raise ValueError(f"a {type(member).__name__} is part of a {type(part).__name__}")
        _check(member, width, depth)


def _check_forest(forest: Any, sizes: ArraySizes, depth: int) -> None:
    trees = forest.estimators_
    _check_members(forest, trees, [sizes.d] * len(trees), depth, ("DecisionTreeClassifier", "ExtraTreeClassifier"))
    if len(trees) != forest.n_estimators or any(tree.classes_.size != sizes.k for tree in trees):
        raise ValueError("the trees of a forest do not fit it")


def _check_boosting(boosting: Any, sizes: ArraySizes, depth: int) -> None:
    members, weights = boosting.estimators_, boosting.estimator_weights_
    _check_members(boosting, members, [sizes.d] * len(members), depth)
    sound = isinstance(weights, np.ndarray) and weights.dtype == np.float64 and weights.ndim == 1 and weights.size >= len(members)
    if not sound or not all(KEPT[path_of(type(member))].classifies for member in members):
        raise ValueError("the estimators of a boosting do not fit it")


def _check_bagging(bagging: Any, sizes: ArraySizes, depth: int) -> None:
    chosen, members = bagging.estimators_features_, bagging.estimators_
    for features in chosen:
        whole = isinstance(features, np.ndarray) and features.ndim == 1 and features.dtype.kind == "i"
        if not whole or not 0 < features.size <= sizes.d or features.min() < 0 or features.max() >= sizes.d:
            raise ValueError("the features of a bagging's estimators are damaged")
    _check_members(bagging, members, [features.size for features in chosen], depth)
    for member in members:
        classes = member.classes_ if KEPT[path_of(type(member))].classifies else np.empty(0)
        if classes.dtype.kind != "i" or classes[0] < 0 or classes[-1] >= sizes.k:
            raise ValueError("the classes of a bagging's estimators are damaged")
    if len(members) != bagging.n_estimators:
        raise ValueError("the estimators of a bagging do not fit it")


def _check_gradient_boosting(boosting: Any, sizes: ArraySizes, depth: int) -> None:
    """Its compiled code adds values of stages × functions to rows × functions."""
    trees = boosting.estimators_
    sound = isinstance(trees, np.ndarray) and trees.dtype == object and trees.ndim == 2 and trees.shape[0] >= 1
    if not sound or trees.shape[1] != sizes.p or sizes.k < 2:
        raise ValueError(f"estimators_ of {type(boosting).__name__} is damaged")
    _check_members(boosting, trees.ravel().tolist(), [sizes.d] * trees.size, depth, ("DecisionTreeRegressor",))
    first = boosting.init_
    if not (isinstance(first, str) and first == "zero"):
        _check_members(boosting, [first], [sizes.d], depth, ("DummyClassifier",))
        if first.classes_.size != sizes.k or boosting.init not in (None, "zero"):
            raise ValueError(f"init_ of {type(boosting).__name__} is damaged")
    loss = boosting._get_loss(sample_weight=None)
    if type(boosting._loss) is not type(loss):
        raise ValueError(f"_loss of {type(boosting).__name__} is damaged")
    boosting._loss = loss


TREES = {**WIDTH, "n_outputs_": exactly(1), "tree_": is_tree}
TREE_CLASSIFIER = Kept({**TREES, **CLASSES, "n_classes_": equal("k")}, "max_features_")
ENSEMBLE = {**WIDTH, **CLASSES, "n_classes_": equal("k"), "estimators_": is_anything}
FIT_OF_ENSEMBLES = "estimator_params estimator estimator_ _n_samples _sample_weight oob_score_ oob_decision_function_"
FOREST = Kept({**ENSEMBLE, "n_outputs_": exactly(1)}, f"{FIT_OF_ENSEMBLES} _n_samples_bootstrap", _check_forest)
GRADIENT_BOOSTING = Kept(
    {**ENSEMBLE, "n_trees_per_iteration_": equal("p"), **by_then("init_ _loss")},
    "alpha max_features_ train_score_ _rng n_estimators_ oob_improvement_ oob_scores_ oob_score_",
    _check_gradient_boosting,
)

# Vectors, densities, support vectors -----------------------------------------------------------------------------------

LINEAR = {**WIDTH, "coef_": functions, "intercept_": intercepts}
LINEAR_CLASSIFIER = {**LINEAR, **CLASSES}
FIT_OF_SGD = (
    "t_ n_iter_ _expanded_class_weight _loss_function_ loss_function_ loss penalty learning_rate epsilon alpha l1_ratio eta0 "
    "power_t average C standard_coef_ standard_intercept_ _standard_coef _standard_intercept _average_coef _average_intercept"
)
FIT_OF_COUNTS = "class_count_ feature_count_ feature_all_"
COUNTS = {**WIDTH, **CLASSES, "feature_log_prob_": reals("k", "d"), "class_log_prior_": reals("k")}


def _check_ridge(ridge: Any, sizes: ArraySizes, depth: int) -> None:
    _check(ridge._label_binarizer, sizes.d, depth)
    if not np.array_equal(ridge._label_binarizer.classes_, ridge.classes_):
        raise ValueError(f"the classes of {type(ridge).__name__} are damaged")


def _check_linear(linear: Any, sizes: ArraySizes, _: int) -> None:
    if sizes.k < 2:
        raise ValueError(f"the classes of {type(linear).__name__} are damaged")


def _check_quadratic(quadratic: Any, _: ArraySizes, __: int) -> None:
    pairs = zip(quadratic.rotations_, quadratic.scalings_, strict=True)
    if any(rotation.shape[1:] != scaling.shape for rotation, scaling in pairs):
        raise ValueError("the rotations of QuadraticDiscriminantAnalysis are damaged")


def _check_dummy(dummy: Any, _: ArraySizes, __: int) -> None:
    shares = dummy.class_prior_
    if not ((shares >= 0) & (shares <= 1)).all() or isinstance(dummy.random_state, np.random.RandomState):
        raise ValueError("class_prior_ of DummyClassifier is damaged")
    if not isinstance(dummy._strategy, str) or dummy._strategy != dummy.strategy:
        raise ValueError("the strategy of DummyClassifier is damaged")


def _check_categories(bayes: Any, sizes: ArraySizes, _: int) -> None:
    tables = bayes.feature_log_prob_
    sound = isinstance(tables, list) and len(tables) == sizes.d
    if not sound or not all(isinstance(t, np.ndarray) and t.ndim == 2 and is_reals(t, (sizes.k, t.shape[1])) for t in tables):
        raise ValueError("feature_log_prob_ of CategoricalNB is damaged")
    if not isinstance(bayes.n_categories_, np.ndarray) or bayes.n_categories_.tolist() != [table.shape[1] for table in tables]:
        raise ValueError("n_categories_ of CategoricalNB is damaged")


def _check_support(svm: Any, sizes: ArraySizes, _: int) -> None:
    """LIBSVM is told only some of the sizes of its arrays."""
    counts, k = svm._n_support, sizes.k
    whole = isinstance(counts, np.ndarray) and counts.dtype == np.int32 and counts.shape == (k,)
    if not whole or k < 2 or (counts < 0).any():
        raise ValueError("the support vectors are damaged")
    n, pairs = int(counts.sum(dtype=np.int64)), k * (k - 1) // 2
    shapes = {
        **{"support_vectors_": (n, sizes.d), "_dual_coef_": (k - 1, n), "dual_coef_": (k - 1, n)},
        **{"_intercept_": (pairs,), "intercept_": (pairs,)},
    }
    arrays = {name: getattr(svm, name) for name in (*shapes, "_probA", "_probB")}
    sound = (
        all(isinstance(array, np.ndarray) and array.dtype == np.float64 for array in arrays.values())
        and all(arrays[name].shape == shape for name, shape in shapes.items())
        and (svm._probA.shape == svm._probB.shape and svm._probA.shape in ((0,), (pairs,)))
        and isinstance(svm.support_, np.ndarray)
        and (svm.support_.dtype, svm.support_.shape) == (np.int32, (n,))
        and svm.kernel in ("linear", "poly", "rbf", "sigmoid")
        and isinstance(svm._gamma, (float, np.floating))
        and svm._sparse is False
    )
    if not sound:
        raise ValueError("the support vectors are damaged")


SUPPORT = "support_ support_vectors_ _n_support dual_coef_ _dual_coef_ intercept_ _intercept_ _probA _probB _gamma _sparse"
SUPPORT_VECTORS = Kept(
    {**WIDTH, **CLASSES, **by_then(SUPPORT), "fit_status_": exactly(0)},
    "nu C epsilon class_weight_ fit_status_ _num_iter shape_fit_ n_iter_ _effective_probability",
    _check_support,
)
SGD = Kept(LINEAR_CLASSIFIER, FIT_OF_SGD, _check_linear)
LOGISTIC = Kept(LINEAR_CLASSIFIER, "n_iter_ Cs_ scores_ coefs_paths_ C_ l1_ratio_ l1_ratios_", _check_linear)
RIDGE = Kept(
    {**LINEAR, "_label_binarizer": is_anything},
    "classes_ n_iter_ solver_ alpha_ best_score_ gcv_mode alpha_per_target cv_results_",
    _check_ridge,
)
KERNELS = (
    "class_log_prior_ class_size_ value_count_ precision_ bandwidth_ low_ value_start_ value_ value_mass_ value_log_ "
    "table_start_ table_ zero_log_ floor_ rounds_"
)


def _own(names: str, carries: str = "") -> Kept:
    """A classifier of ours, which checks its own arrays."""
    return Kept({**WIDTH, **CLASSES, **by_then(names)}, carries, lambda classifier, _, __: classifier.check_arrays())


# By path: the classes that files may hold. Those that do not classify are parts of others.
KEPT: dict[str, Kept] = {
    "hpcml.model.decision_tree.DecisionTree": _own("feature_ threshold_ child_ count_", "max_depth min_samples_leaf"),
    "hpcml.model.learner.Constant": Kept(CLASSES),
    "hpcml.model.gaussian_bayes.GaussianNB": _own("class_log_prior_ precision_ mean_ deviation_"),
    "hpcml.model.kernel_bayes.KernelNB": _own(KERNELS),
    "sklearn.discriminant_analysis.LinearDiscriminantAnalysis": Kept(
        LINEAR_CLASSIFIER,
        "priors_ _max_components means_ xbar_ explained_variance_ratio_ scalings_ _n_features_out covariance_",
        _check_linear,
    ),
    "sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis": Kept(
        {
            **{**WIDTH, **CLASSES, "priors_": reals("k"), "means_": reals("k", "d")},
            **{"scalings_": arrays_of_classes("r"), "rotations_": arrays_of_classes("d", "r")},
        },
        "covariance_",
        _check_quadratic,
    ),
    "sklearn.dummy.DummyClassifier": Kept(
        {
            **{**WIDTH, **CLASSES, "n_classes_": equal("k"), "class_prior_": reals("k"), "n_outputs_": exactly(1)},
            **{"sparse_output_": exactly(False), "_strategy": is_anything},
        },
        then=_check_dummy,
    ),
    "sklearn.ensemble.AdaBoostClassifier": Kept(
        {**ENSEMBLE, "estimator_weights_": is_anything}, f"{FIT_OF_ENSEMBLES} estimator_errors_", _check_boosting
    ),
    "sklearn.ensemble.BaggingClassifier": Kept(
        {**ENSEMBLE, "estimators_features_": is_anything}, f"{FIT_OF_ENSEMBLES} _max_samples _max_features _seeds", _check_bagging
    ),
    "sklearn.ensemble.ExtraTreesClassifier": FOREST,
    "sklearn.ensemble.GradientBoostingClassifier": GRADIENT_BOOSTING,
    "sklearn.ensemble.RandomForestClassifier": FOREST,
    "sklearn.linear_model.LogisticRegression": LOGISTIC,
    "sklearn.linear_model.LogisticRegressionCV": LOGISTIC,
    "sklearn.linear_model.PassiveAggressiveClassifier": SGD,
    "sklearn.linear_model.Perceptron": SGD,
    "sklearn.linear_model.RidgeClassifier": RIDGE,
    "sklearn.linear_model.RidgeClassifierCV": RIDGE,
    "sklearn.linear_model.SGDClassifier": SGD,
    "sklearn.naive_bayes.BernoulliNB": Kept(COUNTS, FIT_OF_COUNTS),
    "sklearn.naive_bayes.CategoricalNB": Kept(
        {**COUNTS, **by_then("feature_log_prob_ n_categories_")}, "category_count_ class_count_", _check_categories
    ),
    "sklearn.naive_bayes.ComplementNB": Kept(COUNTS, FIT_OF_COUNTS),
    "sklearn.naive_bayes.GaussianNB": Kept(
        {**WIDTH, **CLASSES, "theta_": reals("k", "d"), "var_": reals("k", "d"), "class_prior_": reals("k")},
        "epsilon_ class_count_",
    ),
    "sklearn.naive_bayes.MultinomialNB": Kept(COUNTS, FIT_OF_COUNTS),
    "sklearn.neighbors.NearestCentroid": Kept(
        {
            **{**WIDTH, **CLASSES, "centroids_": reals("k", "d"), "class_prior_": reals("k")},
            **{"within_class_std_dev_": reals("d"), "deviations_": reals("k", "d")},
        },
        "true_classes_",
    ),
    "sklearn.preprocessing.LabelBinarizer": Kept(CLASSES, "y_type_ sparse_input_", classifies=False),
    "sklearn.svm.LinearSVC": Kept(LINEAR_CLASSIFIER, "n_iter_", _check_linear),
    "sklearn.svm.NuSVC": SUPPORT_VECTORS,
    "sklearn.svm.SVC": SUPPORT_VECTORS,
    "sklearn.tree.DecisionTreeClassifier": TREE_CLASSIFIER,
    "sklearn.tree.DecisionTreeRegressor": Kept(TREES, "max_features_ class_weight", classifies=False),
    "sklearn.tree.ExtraTreeClassifier": TREE_CLASSIFIER,
}
