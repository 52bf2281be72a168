# %% [markdown]
# # Example: topics of documents, from a CSV file
#
# <!-- for: whoever has texts in a table and works in Python -->
#
# From a table of pandas to labels of new texts, thresholds and a page about them, all from Python.
# The [command line](first.md) does the same. Needs: `pip install 'hpcml[report]' pandas`.
#
# ## The table
#
# A table of your own takes the place of this one. Here the documents are the docstrings of two
# packages that are installed with hpcml. The topics of a document are the parts of the module's
# name, with `;` between.

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
# `convert` takes the columns by their names. 30 % of the rows are set aside, to judge the model on.

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
# ## Models, and where to cut
#
# `train` gives a row the labels whose scores are above 0. `tune` looks in held-out parts of the
# training rows for the λ, the weight of positive rows and the threshold that suit each label. The
# rare topics need that: a score above 0 is rare for them. (`evaluate` says so itself, in the log.)

# %%
plain = hpcml.train("dual", "documents.h5", "runs/plain")
tuned = hpcml.tune("documents.h5", "runs/tuned", folds=3)
models = {"train dual": plain.model, "tune": tuned.model}
judged = {name: hpcml.evaluate(model, "documents.h5") for name, model in models.items()}
measures = ["average_precision", "precision", "recall", "f1"]
macro = {name: [each.macro(measure) for measure in measures] for name, each in judged.items()}
print(pd.DataFrame(macro, index=measures).T.round(3).to_string())

# %% [markdown]
# Average precision, which looks at the order of the rows alone, is about the same. F1, which looks
# at the labels that rows get, is not. The gain comes from rare topics; of a topic with a few test
# rows, chance has its say:

# %%
before, after = (each.values["f1"] for each in judged.values())
names, counts = judged["tune"].label_names, judged["tune"].n_positive
order = np.argsort(-counts, kind="stable")
figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
places = np.arange(len(names))
axes.bar(places - 0.2, before[order], 0.4, label="cut at 0 (train dual)", color="0.7")
axes.bar(places + 0.2, after[order], 0.4, label="cut at the label's threshold (tune)", color="#0072B2")
axes.set_xticks(places, [f"{names[k]} ({counts[k]})" for k in order], rotation=60, ha="right")
axes.set(ylabel="F1 on the test rows", title="F1 of each topic (in brackets: its test rows)")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
figure.savefig("topics.svg")

# %% [markdown]
# ## What it looks at, and a page
#
# `report` makes a page with measures, curves, all labels and the rows that are most wrong, which
# opens in any browser.

# %%
print(hpcml.explain(tuned.model, label=["cluster"], top=6))
hpcml.report(["runs/tuned", "runs/plain"], "report.html")

# %% [markdown]
# ## New texts
#
# The model holds the words of training. Each text gets the labels above their thresholds.

# %%
texts = [
    "Cluster samples hierarchically, then cut the dendrogram into flat clusters.",
    "Solve a sparse linear system by conjugate gradients.",
]
for labels in hpcml.load(tuned.model).top(texts):
    print(", ".join(f"{each.label} {each.probability:.3f}" for each in labels))
