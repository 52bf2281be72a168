"""The same rows in files of every format, written by the libraries of the formats where possible."""

import csv
import json

import numpy as np
import scipy.sparse as sp

import hpcml
from support.converted import converted

WORDS = ["alpha", "beta", "gamma", "délta", "x1", "the", "and", "omega", "Ωmega", "zz"]
LABELS = ["sea", "farm, old", 'the "port"', "Öl"]


def frame(seed, n_rows):
    import pandas as pd

    rng = np.random.default_rng(seed)
    rows = []
    for row in range(n_rows):
        words = rng.choice(WORDS, rng.integers(1, 20))
        text = "".join(word + rng.choice([" ", ", ", "\n", ' "quoted" ', '"'], p=[0.6, 0.1, 0.1, 0.1, 0.1]) for word in words)
        chosen = [label for label in LABELS if rng.random() < 0.4]
        rows.append(
            {
                "id": f"doc {row}",
                "title": str(rng.choice(WORDS)) if rng.random() < 0.9 else "",
                "text": text,
                "topics": ";".join(chosen) if row else "sea",
                "toxic": int(rng.random() < 0.5),
                "split": str(rng.choice(["train", "train", "test", ""])),
                "a": float(rng.choice([0, 0, 1.5, -2.25])),
                "b": float(rng.integers(0, 3)),
                "long": float(rng.standard_normal()),
            }
        )
    return pd.DataFrame(rows)


def matrices(seed, n_rows=37, n_features=11, n_labels=5):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < 0.3, rng.standard_normal((n_rows, n_features)).astype(np.float32), 0)
    Y = (rng.random((n_rows, n_labels)) < 0.3).astype(np.int8)
    X[3], X[:, 4], Y[5] = 0, 0, 0
    X[5, 0], Y[3, 1] = 2, 1
    return sp.csr_matrix(X.astype(np.float32)), sp.csr_matrix(Y)


def as_jsonl(path, table):
    with path.open("w", encoding="utf-8") as out:
        for row in table.to_dict("records"):
            labels = [part for part in row["topics"].split(";") if part]
            print(json.dumps({name: row[name] for name in ("id", "title", "text", "split")} | {"labels": labels or None}), file=out)
    return path


def as_csv(path, table, delimiter=",", end="\r\n"):
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
        writer.writerow(table.columns)
        writer.writerows(table.itertuples(index=False))
    return path


def as_xmc(path, X, Y):
    with path.open("w") as out:
        print(X.shape[0], X.shape[1], Y.shape[1], file=out)
        for row in range(X.shape[0]):
            labels = ",".join(map(str, Y[row].indices))
            print(labels, *(f"{j}:{v!r}" for j, v in zip(X[row].indices.tolist(), X[row].data.tolist(), strict=True)), file=out)
    return path


def as_h5ad(path, X, obs, names):
    import anndata
    import pandas as pd

    anndata.AnnData(X, obs=obs, var=pd.DataFrame(index=names)).write_h5ad(path)
    return path


def as_h5ad_of_07(path, X, columns):
    import h5py

    n_rows, n_features = X.shape
    strings = h5py.string_dtype()
    with h5py.File(path, "w") as file:
        X = X.tocsc()
        for name in ("data", "indices", "indptr"):
            file[f"X/{name}"] = getattr(X, name)
        file["X"].attrs.update({"encoding-type": "csc_matrix", "encoding-version": "0.1.0", "shape": X.shape})
        file.create_dataset("var/_index", data=[f"gene {number}" for number in range(n_features)], dtype=strings)
        file.create_dataset("obs/_index", data=[f"cell {row}" for row in range(n_rows)], dtype=strings)
        for name, (categories, values) in columns.items():
            if categories is None:
                file[f"obs/{name}"] = values
                continue
            file[f"obs/{name}"] = np.asarray(values, dtype=np.int8)
            dtype = strings if isinstance(categories[0], str) else None
            of_column = file.create_dataset(f"obs/__categories/{name}", data=categories, dtype=dtype)
            of_column.attrs["ordered"] = False
            file[f"obs/{name}"].attrs["categories"] = of_column.ref
        for name in ("obs", "var"):
            order = list(columns) if name == "obs" else []
            about = {"_index": "_index", "column-order": np.array(order, dtype=strings)}
            file[name].attrs.update({"encoding-type": "dataframe", "encoding-version": "0.1.0"} | about)
    return path


def as_arff(path, sparse):
    rng = np.random.default_rng(4)
    lines = ["% a comment", "@RELATION 'a test'", "", "@attribute 'the width' numeric", "@ATTRIBUTE colour {red,'dark green',blue}"]
    lines += ["@attribute on {0,1}", "@attribute sea {0,1}", "@attribute farm {0,1}", "@attribute class {good,bad}", "@data"]
    for _ in range(33):
        values = [repr(float(rng.choice([0, 0, 1.5, -3]))), str(rng.choice(["red", "'dark green'", "blue"]))]
        values += [str(rng.integers(2)) for _ in range(3)] + [str(rng.choice(["good", "bad"]))]
        if sparse:
            first = ["0.0", "red", "0", "0", "0", "good"]
            pairs = [f"{k} {value}" for k, value in enumerate(values) if value != first[k]]
            lines.append("{" + ", ".join(pairs) + "}")
        else:
            lines.append(",".join(values))
    path.write_text("\n".join(lines) + "\n% the end\n")
    return path


def write_table(source, path, numbers, others):
    import pandas as pd

    data = pd.concat([numbers, others], axis=1)
    if source in ("csv", "tsv"):
        data.to_csv(path, index=False, sep="," if source == "csv" else "\t")
    elif source == "parquet":
        data.to_parquet(path)
    elif source == "h5ad":
        as_h5ad(path, numbers.to_numpy(np.float32), others.set_axis([f"r{row}" for row in range(len(data))]), list(numbers))
    elif source == "npz":
        y = others.iloc[:, 0].to_numpy()
        names = list(map(str, numbers))
        np.savez(path.open("wb"), X=numbers.to_numpy(), y=y.astype(str) if y.dtype == object else y, feature_names=names)
    else:
        cells = {
            name: ["?" if pd.isna(v) or not str(v).strip() else repr(str(v)) for v in others[name].tolist()] for name in others
        }
        head = ["@relation r", *(f"@attribute '{name}' numeric" for name in numbers)]
        head += [f"@attribute '{name}' {{{','.join(dict.fromkeys(v for v in cells[name] if v != '?'))}}}" for name in others]
        rows = zip(*(map(repr, numbers[name].tolist()) for name in numbers), *cells.values(), strict=True)
        path.write_text("\n".join([*head, "@data", *map(",".join, rows)]))
    return path


def convert_table(source, folder, numbers, others, name="out", **options):
    import pandas as pd

    output = folder / f"{name}.h5"
    if source == "frame":
        hpcml.Dataset.from_frame(pd.concat([numbers, others], axis=1), output, force=True, **options).file.close()
    elif source == "sparse":
        del options["labels"]
        X, names = sp.csr_matrix(numbers.to_numpy()), list(map(str, numbers))
        hpcml.Dataset.from_sparse(X, others.iloc[:, 0].to_numpy(), output, feature_names=names, force=True, **options).file.close()
    else:
        if source == "npz":
            del options["labels"]
        options |= {"quotes": True} if source == "tsv" else {}
        converted(source, write_table(source, folder / f"{name}.{source}", numbers, others), output, told=True, **options)
    return output
