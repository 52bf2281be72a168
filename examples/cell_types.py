# %% [markdown]
# # Example: cell types, from an AnnData file
#
# <!-- for: whoever has counts of genes in cells, some of which are typed -->
#
# From an `.h5ad` file to a model that types cells, and the genes that it goes by. Needs: `pip
# install 'hpcml[report]' anndata`.
#
# ## Cells
#
# A file of your own takes the place of this one. Here the counts are drawn: each of six types has
# 15 genes that it reads out 4 times as much, cells differ in depth, and the noise is Poisson's. So
# we know what should be found.

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
# Counts are brought to the same depth, and to a logarithmic scale, as `scanpy.pp.normalize_total`
# and `log1p` do. hpcml takes the values of `X` as they are.

# %%
cells.X = cells.X.multiply(1e3 / cells.X.sum(axis=1)).tocsr()
cells.X.data = np.log1p(cells.X.data)
cells.write_h5ad("cells.h5ad")
print(hpcml.convert("h5ad", "cells.h5ad", "cells.h5", labels=["cell_type"], test_share=0.3, seed=1))

# %% [markdown]
# ## A model
#
# `elastic-net` gives most genes no weight at all. What is left can be read. Each type is told from
# all others. The log warns that cells have many genes each, so that `dual` would be faster; for so
# few cells that does not matter.

# %%
run = hpcml.train("elastic-net", "cells.h5", "runs/cells", l1="0.002")
judged = hpcml.evaluate(run.model, "cells.h5")
table = {name: judged.values[name] for name in ("average_precision", "precision", "recall")}
print(pd.DataFrame({"test cells": judged.n_positive} | table, index=judged.label_names).round(3).to_string())

# %% [markdown]
# ## The genes that it goes by
#
# `explain` lists for each type the genes of the largest squared weights. The program of a type was
# drawn above, so we can count how many of its genes are among them.

# %%
found = hpcml.explain(run.model, label=TYPES, top=N_OWN)
markers = {TYPES[number]: programs[number] for number in range(len(TYPES))}
for label in found.labels:
    name = found.model.label_names[label.label]
    own = {f"gene{number}" for number in markers[name]}
    listed = [found.names[feature] for feature, weight in zip(label.features, label.weights, strict=True) if weight > 0]
    print(
        f"{name:5} {len(own & set(listed))} of {N_OWN} own genes listed; {label.n_weights} weights; first: {', '.join(listed[:3])}"
    )

# %%
model, genes = found.model, np.concatenate([markers[name] for name in TYPES])
rows = [model.label_names.index(name) for name in TYPES]
features = {name: number for number, name in enumerate(cells.var_names)}
weights = model.weights(np.array(rows))[:, [features[f"gene{number}"] for number in genes]]
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
limit = np.abs(weights).max()
shown = axes.imshow(weights, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
axes.set_yticks(range(len(TYPES)), TYPES)
axes.set_xticks(np.arange(len(TYPES)) * N_OWN + N_OWN / 2 - 0.5, TYPES)
axes.set(xlabel="genes of the program of", ylabel="weights of")
axes.set_title("Weights of each type on the genes that were drawn for each")
figure.colorbar(shown, label="weight")
figure.savefig("cell_types.svg")
