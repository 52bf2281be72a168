"""Digests of the results of all methods on small data, to compare processors and versions.

The rows are generated with integer arithmetic and written as text, so they do not depend on library functions. All methods train;
their models score rows, are evaluated, and get thresholds and probabilities. The results must be the same on every processor.
`bits.json` has the shipped digests; `hpcml check --bits --json` computes new ones.

The digest of an HDF5 file is the SHA-256 of names, types, shapes and values of all datasets and attributes in sorted order, not of
the bytes of the file: files with the same content have the same digest. It excludes the attributes NOT_CONTENT, the version of
skops in a saved classifier, and the group `input` of a model, which repeats the training dataset. No other attribute holds a time,
a version or a path.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hpcml import mpi
from hpcml.conversion.convert import convert
from hpcml.conversion.options import ConvertOptions
from hpcml.evaluation.evaluate import evaluate
from hpcml.evaluation.thresholds import ThresholdSearch, calibrate, threshold
from hpcml.files.atomic import write_atomically
from hpcml.files.hdf5 import COMPUTED_BY, WRITTEN_BY
from hpcml.kernels.processor import computed_by
from hpcml.log import Log
from hpcml.methods.registry import METHODS, train
from hpcml.model.linear import Model
from hpcml.model.open import share_model
from hpcml.model.raw_input import GROUP as RAW_INPUT
from hpcml.options import option_flag
from hpcml.prediction.predict import predict, write_scores
from hpcml.run.session import Session, Target, open_model_and_dataset
from hpcml.tuning.options import TuneOptions
from hpcml.tuning.tune import tune

NOT_CONTENT = frozenset({"hpcml-version", WRITTEN_BY, COMPUTED_BY, "model"})  # versions, processor, libraries, path of the model
Digests = dict[str, dict[str, str]]  # training -> result -> digest
SHIPPED = Path(__file__).with_name("bits.json")
# With 240 rows, another exp in `elastic-net` changed no digest; with 1500, neither did another one in `psbml`.
ROWS = 720
SPLIT = "test"  # split to score and to evaluate
TEXTS, NUMBERS = "texts", "numbers"  # documents with label sets; numbers of two classes
LOSSES = tuple((name, {"loss": loss}) for name, method in METHODS.items() for loss in method.losses)
ONLINE = tuple((name, more) for name, method in METHODS.items() if "streams" in method.supports for more in ({}, {"voted": True}))
OF_CLASSES = tuple(name for name, method in METHODS.items() if "label_sets" not in method.supports)
BASES = ("kernel-nb", "gaussian-nb", "tree", "stump", "linear-svm")
# All trainings: a method and its options. Few steps: rounding differs after three steps as well as after a thousand.
TRAININGS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((name, more | ({"max_steps": 50} if name == "pegasos" else {})) for name, more in LOSSES),
    *((name, {}) for name, method in METHODS.items() if not (method.losses or "streams" in method.supports or name in OF_CLASSES)),
    *ONLINE,
    *(("psbml", {"base": (base,), "cycles": 2}) for base in BASES),
    ("adaboost", {"rounds": 3}),
)
TUNED: tuple[tuple[str, Mapping[str, Any]], ...] = (("dual", {"loss": "logistic"}), ("elastic-net", {}))
# Prefix of a training -> package that computes its results, which depend on the version of the package.
EXTERNAL = dict.fromkeys(("liblinear", "adaboost", "staged-svm", "psbml --base linear-svm"), "sklearn") | {"svmperf": "daqp"}
# Prefix of a training -> package without which it is skipped.
NEEDED = {"svmperf": "daqp", "psbml --base linear-svm": "skops"}


def compute_digest(path: Path | str) -> str:
    """Return the SHA-256 of the content of an HDF5 file. Raises OSError."""
    parts: dict[str, bytes] = {}

    def add(name: str, node: h5py.Group | h5py.Dataset) -> None:
        if name.split("/")[1] == RAW_INPUT:
            return
        parts[name] = _encode(name, node[()]) if isinstance(node, h5py.Dataset) else b"group"
        parts.update({f"{name}@{key}": _encode(f"{name}@{key}", node.attrs[key]) for key in node.attrs if key not in NOT_CONTENT})

    with h5py.File(path) as file:
        add("/", file)
        file.visititems(lambda name, node: add(f"/{name}", node))
    lines = (f"{name} {hashlib.sha256(part).hexdigest()}\n" for name, part in sorted(parts.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _encode(name: str, value: object) -> bytes:
    array = np.asarray(value)
    if name == "/classifier":  # a skops file; exclude its version
        with zipfile.ZipFile(io.BytesIO(array.tobytes())) as archive:
            parts = {name: archive.read(name) for name in sorted(archive.namelist())}
        description = json.loads(parts["schema.json"])
        description.pop("_skops_version", None)
        parts["schema.json"] = json.dumps(description, sort_keys=True).encode()
        return b"".join(f"{name} {len(part)}\n".encode() + part for name, part in parts.items())
    if array.dtype == object or array.dtype.kind in "SU":  # texts
        texts = [each.decode() if isinstance(each, bytes) else str(each) for each in array.reshape(-1).tolist()]
        return json.dumps([array.shape, texts]).encode()
    return f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()


def name_training(method: str, options: Mapping[str, Any]) -> str:
    words = [method]
    for name, value in options.items():
        values = value if isinstance(value, tuple) else (value,)
        words += [f"--{option_flag(name)}", *(str(each) for each in values if each is not True)]
    return " ".join(words)


def _generate_numbers(seed: int) -> Iterator[int]:
    """Yield integers below 2^16 (Knuth's linear congruential generator)."""
    state = seed
    while True:
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        yield state >> 48


def write_sources(folder: Path) -> None:
    """Write `texts.jsonl` (documents with up to three labels) and `numbers.svm` (two classes)."""
    draw, splits = _generate_numbers(1), ("train", "train", SPLIT)
    with (folder / f"{TEXTS}.jsonl").open("w", encoding="utf-8") as out:
        for row in range(ROWS):
            labels = [label for label in range(3) if next(draw) % 5 < 2]
            about = [*labels, 3]
            text = " ".join(f"w{20 * about[next(draw) % len(about)] + min(next(draw) % 40, next(draw) % 40)}" for _ in range(15))
            line = {"id": str(row), "text": text, "labels": [f"l{label}" for label in labels], "split": splits[row % 3]}
            out.write(json.dumps(line) + "\n")
    with (folder / f"{NUMBERS}.svm").open("w", encoding="utf-8") as out:
        for _ in range(ROWS):
            x = [next(draw) % 1000 + 1 for _ in range(4)]
            positive = x[0] + x[1] + next(draw) % 400 > 1200
            out.write(f"{'+1' if positive else '-1'} {' '.join(f'{j + 1}:{value / 8}' for j, value in enumerate(x))}\n")


def compute_digests(comm: mpi.Comm, folder: Path, methods: Collection[str] = ()) -> Digests:
    """Train these methods (default: all, if their packages are installed) in `folder`; return rank 0's digests. Collective."""
    session = Session(comm, Log(1))
    mpi.run_on_root(comm, f"writing {folder}", lambda: write_sources(folder))
    sources = {TEXTS: ("jsonl", "jsonl", ConvertOptions(min_df=2)), NUMBERS: ("svmlight", "svm", ConvertOptions(test_share=0.3))}
    digests: Digests = {}
    for name, (kind, ending, options) in sources.items():
        convert(comm, kind, [folder / f"{name}.{ending}"], folder / f"{name}.h5", options, False, session.log)
        digests[f"convert {kind}"] = _digest_on_root(comm, {"dataset": folder / f"{name}.h5"})
    for number, (command, method, more) in enumerate([("", *each) for each in TRAININGS] + [("tune ", *each) for each in TUNED]):
        name = command + name_training(method, more)
        package = find_package(name, NEEDED)
        if (methods and method not in methods) or (package is not None and find_spec(package) is None):
            continue
        data, target = folder / f"{NUMBERS if method in OF_CLASSES else TEXTS}.h5", Target(folder / str(number))
        if command:
            model = tune(session, data, target, TuneOptions(method=method, folds=3, lambdas=(0.1, 1.0), **more)).model
        else:
            model = train(method, session, data, target, METHODS[method].options(**more)).model
        digests[name] = _digest_on_root(comm, {"model": model}) | _digest_results(session, model, data)
    return digests


def find_package(name: str, packages: Mapping[str, str]) -> str | None:
    return next((package for prefix, package in packages.items() if name.startswith(prefix)), None)


def _digest_results(session: Session, model: Path, data: Path) -> dict[str, str]:
    comm, log = session.comm, session.log
    files = {name: model.with_name(f"{name}.h5") for name in ("scores", "thresholds", "sigmoids", "probabilities")}
    files["measures"] = model.with_name("measures.json")
    with open_model_and_dataset(session, model, data) as (opened, dataset):
        write_scores(comm, opened, dataset, SPLIT, files["scores"], False, log)
        evaluation = evaluate(comm, opened, dataset, SPLIT, log)
        mpi.run_on_root(comm, f"writing {files['measures']}", lambda: evaluation.write_json(files["measures"]))
        threshold(comm, opened, dataset, SPLIT, ThresholdSearch("label"), files["thresholds"], log=log)
        if isinstance(opened, Model):
            calibrate(comm, opened, dataset, SPLIT, files["sigmoids"], log=log)
            calibrated = share_model(comm, files["sigmoids"])
            predict(comm, calibrated, dataset, SPLIT, files["probabilities"], False, log, top=calibrated.n_labels)
        else:
            del files["sigmoids"], files["probabilities"]
    return _digest_on_root(comm, files)


def _digest_on_root(comm: mpi.Comm, files: Mapping[str, Path]) -> dict[str, str]:
    """Return the first 64 bits of the digests of files, of measures without the paths of model and data; {} on other ranks."""
    digests = {}
    for name, path in files.items() if comm.rank == 0 else ():
        if path.suffix == ".h5":
            digests[name] = compute_digest(path)[:16]
        else:
            content = {**json.loads(path.read_text(encoding="utf-8")), "model": "", "data": ""}
            digests[name] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    return digests


def read_shipped() -> Digests:
    return json.loads(SHIPPED.read_text(encoding="utf-8"))["digests"]


def write_digests(path: Path, digests: Digests) -> None:
    write_atomically(path, (json.dumps({"made-on": computed_by(), "digests": digests}, indent=1) + "\n").encode())


def describe_difference(digests: Mapping[str, str], expected: Mapping[str, str] | None) -> str:
    """Return the names of the results that differ, in words; "" if none differs."""
    if expected is None:
        return "is new"
    differing = [name for name in digests if digests[name] != expected.get(name)]
    return f"differs: {', '.join(differing)}" if differing else ""
