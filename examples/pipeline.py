# %% [markdown]
# # Example: a scikit-learn pipeline
#
# <!-- for: scikit-learn users who need calibrated probabilities -->
#
# `DualClassifier` works in a `Pipeline` and a grid search like any other classifier. The data are
# included in scikit-learn: 569 tumours with 30 numeric features, benign or malignant. The example
# needs `pip install 'hpcml[report]' pandas`.

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
# The grid search varies a parameter of a pipeline step. `"X/m"`, the default, is the squared mean
# norm of the training rows divided by their number, so that λ matches the scale of the data. The
# evaluation uses ten folds that the search does not see.

# %%
folds = StratifiedKFold(10, shuffle=True, random_state=0)
pipeline = make_pipeline(StandardScaler(), DualClassifier())
grid = {"dualclassifier__lam": ["X/m", "10X/m", "100X/m", "1000X/m"]}
search = GridSearchCV(pipeline, grid, scoring="roc_auc", cv=5)
scores = cross_val_predict(search, X, y, cv=folds, method="decision_function")
print(f"ROC AUC of held-out rows: {roc_auc_score(y, scores):.4f}")
print(
    pd.DataFrame(search.fit(X, y).cv_results_)[["param_dualclassifier__lam", "mean_test_score", "std_test_score"]]
    .round(4)
    .to_string()
)

# %% [markdown]
# ## Probabilities
#
# A support vector machine has scores, not probabilities. `CalibratedClassifierCV` computes
# probabilities from held-out scores. With `loss="logistic"` the scores are log-odds, and
# `DualClassifier` has `predict_proba`; calibration changes these probabilities little here.

# %%
best = search.best_params_["dualclassifier__lam"]


def classifier(loss):
    """Return a pipeline with the best λ."""
    return make_pipeline(StandardScaler(), DualClassifier(loss=loss, lam=best))


models = {
    "hinge, calibrated": CalibratedClassifierCV(classifier("hinge"), method="sigmoid", cv=5),
    "logistic, uncalibrated": classifier("logistic"),
    "logistic, calibrated": CalibratedClassifierCV(classifier("logistic"), method="sigmoid", cv=5),
}
probabilities = {name: cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1] for name, model in models.items()}
for name, probability in probabilities.items():
    print(f"{name:22} Brier score {brier_score_loss(y, probability):.4f}, ROC AUC {roc_auc_score(y, probability):.4f}")

# %%
figure, axes = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
axes.plot([0, 1], [0, 1], color="0.7", label="perfect calibration")
for (name, probability), color, line in zip(
    probabilities.items(), ("#0072B2", "#D55E00", "#009E73"), ("o-", "s--", "^:"), strict=True
):
    observed, predicted = calibration_curve(y, probability, n_bins=6, strategy="quantile")
    axes.plot(predicted, observed, line, color=color, label=name)
axes.set(xlabel="predicted probability", ylabel="observed share of malignant tumours", title="Calibration on held-out rows")
axes.legend(frameon=False)
figure.savefig("pipeline.svg")

# %% [markdown]
# ## Important features
#
# The columns have mean 0 and standard deviation 1 when they reach the classifier, so its weights
# are comparable. A weight times a value is the contribution of that value to the score of the row.

# %%
model = search.best_estimator_
weights = pd.Series(model[-1].coef_[0], X.columns)
first = pd.Series(model[:-1].transform(X[:1])[0] * weights.to_numpy(), X.columns)
strongest = weights.abs().sort_values(ascending=False).index[:6]
shown = pd.DataFrame({"weight": weights, "contribution to the score of row 0": first}).loc[strongest]
print(shown.round(3).to_string())
score, together = model.decision_function(X[:1])[0], first.sum() + model[-1].intercept_[0]
print(f"row 0 ({'malignant' if y[0] else 'benign'}): score {score:.3f}; sum of contributions and intercept: {together:.3f}")
print(f"certificate: the objective is at most {100 * model[-1].gap_.max():.2g} % above its minimum")

# %% [markdown]
# ## Save and load
#
# [`save`](../do/python.md) writes a run folder for an estimator. It does not support
# `StandardScaler`; `scale="standard"` divides by the standard deviations instead.

# %%
save(DualClassifier(loss="logistic", scale="standard", lam=best).fit(X, y), "tumours", label_names=["malignant"])
model = load("tumours")
print(model)
print(model.predict_proba(X[:3]).round(3).tolist())
