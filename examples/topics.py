# %% [markdown]
# # Example: classify documents from a CSV file
#
# <!-- for: Python users with texts in a table -->
#
# This example leads from a pandas table to a tuned model, a report and the labels of new texts,
# entirely in Python. The [command line](first.md) offers the same. It needs `pip install
# 'hpcml[report]' pandas`.
#
# ## The table
#
# The documents are the docstrings of two packages that are installed with hpcml; use your own table
# instead. The topics of a document are the parts of the module name, separated by `;`.

# %%
import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import hpcml

PARTS = {
    "scipy": [
        "stats",
        "optimize",
        "sparse",
        "sparse.linalg",
        "signal",
        "linalg",
        "special",
        "spatial",
        "cluster",
        "fft",
        "integrate",
    ],
    "sklearn": ["linear_model", "cluster", "ensemble", "metrics", "preprocessing", "decomposition", "datasets", "manifold", "svm"],
}
documents = {}
for package, parts in PARTS.items():
    for part in parts:
        module = importlib.import_module(f"{package}.{part}")
        for name, thing in vars(module).items():
            text = inspect.getdoc(thing) if callable(thing) and not name.startswith("_") else None
            if text and len(text) > 200:
                documents[f"{package}.{part}.{name}"] = {"text": text, "topics": ";".join([package, *part.split(".")])}
table = pd.DataFrame.from_dict(documents, orient="index").drop_duplicates("text").sort_index()
table.to_csv("documents.csv", index_label="id")
print(f"{len(table):,} documents")
print(table["topics"].str.split(";").explode().value_counts().head(8).to_string())

# %% [markdown]
# ## A dataset
#
# `convert` gets the names of the columns. 30 % of the rows are reserved for evaluation.

# %%
print(
    hpcml.convert(
        "csv",
        "documents.csv",
        "documents.h5",
        id="id",
        text=["text"],
        labels=["topics"],
        label_separator=";",
        test_share=0.3,
        seed=1,
    )
)

# %% [markdown]
# ## Models and thresholds
#
# `train dual` computes a threshold for each label, from the score that each training row would have
# without itself. `tune` uses cross-validation on the training rows to select λ, the weight of
# positive rows and the threshold of each label. Thresholds matter for rare topics, whose scores are
# rarely above 0, the threshold of other methods.

# %%
plain = hpcml.train("dual", "documents.h5", "runs/plain")
tuned = hpcml.tune("documents.h5", "runs/tuned", folds=3)
evaluations = {
    "threshold 0": hpcml.evaluate(plain.model, "documents.h5", threshold=0),
    "train dual": hpcml.evaluate(plain.model, "documents.h5"),
    "tune": hpcml.evaluate(tuned.model, "documents.h5"),
}
measures = ["average_precision", "precision", "recall", "f1"]
macro = {name: [each.macro(measure) for measure in measures] for name, each in evaluations.items()}
print(pd.DataFrame(macro, index=measures).T.round(3).to_string())

# %% [markdown]
# Average precision depends only on the ranking and is about the same. F1 depends on the assigned
# labels and improves, mainly for rare topics. For topics with few test rows, it varies by chance: the
# only test row of `svm` changes the mean by 0.05.

# %%
before, after = (evaluations[name].values["f1"] for name in ("threshold 0", "train dual"))
names, counts = evaluations["tune"].label_names, evaluations["tune"].n_positive
order = np.argsort(-counts, kind="stable")
figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
positions = np.arange(len(names))
axes.bar(positions - 0.2, before[order], 0.4, label="threshold 0", color="0.7")
axes.bar(positions + 0.2, after[order], 0.4, label="threshold of the label", color="#0072B2")
axes.set_xticks(positions, [f"{names[k]} ({counts[k]})" for k in order], rotation=60, ha="right")
axes.set(ylabel="F1 on the test rows", title="F1 of each topic (number of test rows)")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
figure.savefig("topics.svg")

# %% [markdown]
# ## Important features, and a report
#
# `report` writes a web page with measures, curves, all labels and the worst errors.

# %%
print(hpcml.explain(tuned.model, label=["cluster"], top=6))
hpcml.report(["runs/tuned", "runs/plain"], "report.html")

# %% [markdown]
# ## New texts
#
# The model contains the vocabulary. Each text gets the labels above their thresholds.

# %%
texts = [
    "Cluster samples hierarchically, then cut the dendrogram into flat clusters.",
    "Solve a sparse linear system by conjugate gradients.",
]
for labels in hpcml.load(tuned.model).top(texts):
    print(", ".join(f"{each.label} {each.probability:.3f}" for each in labels))
