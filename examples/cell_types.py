# %% [markdown]
# # Example: classify cells from an AnnData file
#
# <!-- for: users with gene counts of cells, some of which are annotated -->
#
# This example leads from an `.h5ad` file to a model of cell types, and to the genes that it uses.
# It needs `pip install 'hpcml[report]' anndata`.
#
# ## Cells
#
# The counts are simulated; use your own file instead. Each of six types overexpresses 15 genes by a
# factor of 4; cells differ in sequencing depth, and the noise is Poisson. The correct genes are
# therefore known.

# %%
import anndata
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.sparse as sp

import hpcml

TYPES, SHARES, N_CELLS, N_GENES, N_OWN = ["T", "B", "NK", "mono", "DC", "pDC"], [0.4, 0.25, 0.15, 0.12, 0.05, 0.03], 2000, 800, 15
rng = np.random.default_rng(0)
kinds = rng.choice(len(TYPES), N_CELLS, p=SHARES)
rates = np.tile(rng.gamma(0.2, 0.8, N_GENES), (len(TYPES), 1))
programs = rng.permutation(N_GENES)[: len(TYPES) * N_OWN].reshape(len(TYPES), N_OWN)
for rate, program in zip(rates, programs, strict=True):
    rate[program] = 4 * np.maximum(rate[program], 0.2)
depths = rng.lognormal(0, 0.4, N_CELLS)
counts = rng.poisson(depths[:, None] * rates[kinds]).astype(np.float32)

obs = pd.DataFrame({"cell_type": [TYPES[kind] for kind in kinds]}, index=[f"cell{number}" for number in range(N_CELLS)])
cells = anndata.AnnData(sp.csr_matrix(counts), obs, pd.DataFrame(index=[f"gene{number}" for number in range(N_GENES)]))
print(cells)

# %% [markdown]
# Counts are normalised to the same depth and log-transformed, as by `scanpy.pp.normalize_total` and
# `log1p`. hpcml uses the values of `X` unchanged.

# %%
cells.X = cells.X.multiply(1e3 / cells.X.sum(axis=1)).tocsr()
cells.X.data = np.log1p(cells.X.data)
cells.write_h5ad("cells.h5ad")
print(hpcml.convert("h5ad", "cells.h5ad", "cells.h5", labels=["cell_type"], test_share=0.3, seed=1))

# %% [markdown]
# ## A model
#
# `elastic-net` sets the weights of most genes to 0, so the model is readable. Each type is trained
# against all others. The log warns that `dual` would be faster because cells express many genes;
# for so few cells this does not matter.

# %%
run = hpcml.train("elastic-net", "cells.h5", "runs/cells", l1="0.002")
evaluation = hpcml.evaluate(run.model, "cells.h5")
table = {name: evaluation.values[name] for name in ("average_precision", "precision", "recall")}
print(pd.DataFrame({"test cells": evaluation.n_positive} | table, index=evaluation.label_names).round(3).to_string())

# %% [markdown]
# ## Important genes
#
# `explain` lists the genes with the largest squared weights for each type. This counts how many of
# the overexpressed genes are among them.

# %%
explanation = hpcml.explain(run.model, label=TYPES, top=N_OWN)
markers = {TYPES[number]: programs[number] for number in range(len(TYPES))}
for label in explanation.labels:
    name = explanation.model.label_names[label.label]
    own = {f"gene{number}" for number in markers[name]}
    listed = [explanation.names[feature] for feature, weight in zip(label.features, label.weights, strict=True) if weight > 0]
    print(f"{name:5} {len(own & set(listed))} of {N_OWN} genes found; {label.n_weights} weights; first: {', '.join(listed[:3])}")

# %%
model, genes = explanation.model, np.concatenate([markers[name] for name in TYPES])
rows = [model.label_names.index(name) for name in TYPES]
features = {name: number for number, name in enumerate(cells.var_names)}
weights = model.weights(np.array(rows))[:, [features[f"gene{number}"] for number in genes]]
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
limit = np.abs(weights).max()
shown = axes.imshow(weights, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
axes.set_yticks(range(len(TYPES)), TYPES)
axes.set_xticks(np.arange(len(TYPES)) * N_OWN + N_OWN / 2 - 0.5, TYPES)
axes.set(xlabel="genes of the program of", ylabel="weights of")
axes.set_title("Weights of each type for the genes of each type")
figure.colorbar(shown, label="weight")
figure.savefig("cell_types.svg")
