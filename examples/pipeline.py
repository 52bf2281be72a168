# %% [markdown]
# # Example: a pipeline of scikit-learn
#
# <!-- for: whoever uses scikit-learn and wants probabilities to rely on -->
#
# `DualClassifier` stands in a `Pipeline` and in a grid search as any classifier does. The data come
# with scikit-learn: 569 tumours, 30 numbers of each, benign or malignant. Needs: `pip install
# 'hpcml[report]' pandas`.

# %%
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import brier_score_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hpcml import DualClassifier, load, save

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = (y == 0).astype(int)  # 1: malignant
print(f"{X.shape[0]} rows × {X.shape[1]} features, {y.sum()} malignant")

# %% [markdown]
# ## Choose λ
#
# The grid search looks at the parameters of a step of the pipeline. `"X/m"`, the default, is the
# mean norm of the training rows, squared, divided by their number, so that λ fits the scale of the
# data. The rows are judged in ten folds that the search does not see.

# %%
folds = StratifiedKFold(10, shuffle=True, random_state=0)
pipeline = make_pipeline(StandardScaler(), DualClassifier())
grid = {"dualclassifier__lam": ["X/m", "10X/m", "100X/m", "1000X/m"]}
search = GridSearchCV(pipeline, grid, scoring="roc_auc", cv=5)
scores = cross_val_predict(search, X, y, cv=folds, method="decision_function")
print(f"ROC area of held-out rows: {roc_auc_score(y, scores):.4f}")
print(
    pd.DataFrame(search.fit(X, y).cv_results_)[["param_dualclassifier__lam", "mean_test_score", "std_test_score"]]
    .round(4)
    .to_string()
)

# %% [markdown]
# ## Probabilities
#
# A support vector machine has scores, not probabilities. `CalibratedClassifierCV` makes them from
# scores of held-out rows. With `loss="logistic"` the scores are log-odds, and `DualClassifier` has
# `predict_proba` itself; calibration changes these little here.

# %%
best = search.best_params_["dualclassifier__lam"]


def classifier(loss):
    """The pipeline with the λ that was found."""
    return make_pipeline(StandardScaler(), DualClassifier(loss=loss, lam=best))


models = {
    "hinge, calibrated": CalibratedClassifierCV(classifier("hinge"), method="sigmoid", cv=5),
    "logistic, as it is": classifier("logistic"),
    "logistic, calibrated": CalibratedClassifierCV(classifier("logistic"), method="sigmoid", cv=5),
}
chances = {name: cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1] for name, model in models.items()}
for name, chance in chances.items():
    print(f"{name:20} Brier score {brier_score_loss(y, chance):.4f}, ROC area {roc_auc_score(y, chance):.4f}")

# %%
figure, axes = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
axes.plot([0, 1], [0, 1], color="0.7", label="as it should be")
for (name, chance), color, line in zip(chances.items(), ("#0072B2", "#D55E00", "#009E73"), ("o-", "s--", "^:"), strict=True):
    true, said = calibration_curve(y, chance, n_bins=6, strategy="quantile")
    axes.plot(said, true, line, color=color, label=name)
axes.set(xlabel="probability that the model says", ylabel="share of malignant ones", title="Probabilities of held-out rows")
axes.legend(frameon=False)
figure.savefig("pipeline.svg")

# %% [markdown]
# ## What it looks at
#
# The columns have mean 0 and deviation 1 when they reach the classifier, so its weights can be
# compared. A weight times the value is what that value adds to the score of a row.

# %%
model = search.best_estimator_
weights = pd.Series(model[-1].coef_[0], X.columns)
first = pd.Series(model[:-1].transform(X[:1])[0] * weights.to_numpy(), X.columns)
strongest = weights.abs().sort_values(ascending=False).index[:6]
shown = pd.DataFrame({"weight": weights, "adds to the score of row 0": first}).loc[strongest]
print(shown.round(3).to_string())
score, together = model.decision_function(X[:1])[0], first.sum() + model[-1].intercept_[0]
print(f"row 0 ({'malignant' if y[0] else 'benign'}): score {score:.3f}; what its values add, and the intercept: {together:.3f}")
print(f"certified: no weights have an objective more than {100 * model[-1].gap_.max():.2g} % lower")

# %% [markdown]
# ## Use it elsewhere
#
# [`save`](../do/python.md) makes a run folder of an estimator. It takes no `StandardScaler`;
# `scale="standard"` divides by the deviations, too.

# %%
save(DualClassifier(loss="logistic", scale="standard", lam=best).fit(X, y), "tumours", label_names=["malignant"])
model = load("tumours")
print(model)
print(model.predict_proba(X[:3]).round(3).tolist())
