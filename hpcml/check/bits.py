"""Digests of what every method makes of tiny data: to hold one machine against another.

Rows are made by whole numbers alone and written as text, so that no library function has a part in them. All methods train, and
their models score, are judged and get thresholds and probabilities. What comes out must be the same on every processor. `bits.json`
has the digests that ship; `hpcml check --bits --json` renews them.

The digest of an HDF5 file says what it holds: it is equal for files of the same content, however made. It is the
SHA-256 of names, types, shapes and values of all datasets and attributes in sorted order, not of the file's bytes.
Left out are NOT_CONTENT, the version of skops in a classifier that it saved, and a model's group `input`, which repeats
the training dataset. No other attribute holds a time, a version or a path.
"""

from __future__ import annotations

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
from hpcml.files.atomic import write_whole
from hpcml.files.hdf5 import MADE_BY, MADE_ON
from hpcml.kernels.processor import computed_by
from hpcml.log import Log
from hpcml.methods.registry import METHODS, train
from hpcml.model.linear import Model
from hpcml.model.open import share_model
from hpcml.model.raw_input import GROUP as RAW_INPUT
from hpcml.prediction.predict import predict, write_scores
from hpcml.run.session import Session, Target, opened_both
from hpcml.tuning.options import TuneOptions
from hpcml.tuning.tune import tune

NOT_CONTENT = frozenset({"hpcml-version", MADE_BY, MADE_ON, "model"})  # versions, processor and libraries; a path
Digests = dict[str, dict[str, str]]  # by training, by what was made
SHIPPED = Path(__file__).with_name("bits.json")
ROWS = 720  # at 240, another exp in `elastic-net` went unseen; at 1500, another one in `psbml`
SPLIT = "test"  # of the rows that are scored and judged
TEXTS, NUMBERS = "texts", "numbers"  # documents with label sets; numbers of two classes
LOSSES = tuple((name, {"loss": loss}) for name, method in METHODS.items() for loss in method.losses)
ONLINE = tuple((name, more) for name, method in METHODS.items() if "streams" in method.supports for more in ({}, {"voted": True}))
OF_CLASSES = tuple(name for name, method in METHODS.items() if "label_sets" not in method.supports)
BASES = ("kernel-nb", "gaussian-nb", "tree", "stump", "linear-svm")
# All trainings: a method and its options. Few steps: rounding shows as well after three as after a thousand.
TRAININGS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((name, more | ({"max_steps": 50} if name == "pegasos" else {})) for name, more in LOSSES),
    *((name, {}) for name, method in METHODS.items() if not (method.losses or "streams" in method.supports or name in OF_CLASSES)),
    *ONLINE,
    *(("psbml", {"base": (base,), "cycles": 2}) for base in BASES),
    ("adaboost", {"rounds": 3}),
)
TUNED: tuple[tuple[str, Mapping[str, Any]], ...] = (("dual", {"loss": "logistic"}), ("elastic-net", {}))
# By how the name begins: the packages whose code the numbers come from, so that other versions of them may give others; and those
# without which it cannot be trained.
OTHERS = dict.fromkeys(("liblinear", "adaboost", "staged-svm", "psbml --base linear-svm"), "sklearn") | {"svmperf": "daqp"}
NEEDED = {"svmperf": "daqp", "psbml --base linear-svm": "skops"}


def digest(path: Path | str) -> str:
    """The SHA-256 of what an HDF5 file holds. Raises what h5py raises."""
    found: dict[str, bytes] = {}

    def look(name: str, node: h5py.Group | h5py.Dataset) -> None:
        if name.split("/")[1] == RAW_INPUT:
            return
        found[name] = _content(name, node[()]) if isinstance(node, h5py.Dataset) else b"group"
        found.update({f"{name}@{key}": _content(f"{name}@{key}", node.attrs[key]) for key in node.attrs if key not in NOT_CONTENT})

    with h5py.File(path) as file:
        look("/", file)
        file.visititems(lambda name, node: look(f"/{name}", node))
    parts = (f"{name} {hashlib.sha256(part).hexdigest()}\n" for name, part in sorted(found.items()))
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _content(name: str, value: object) -> bytes:
    """Type, shape and values of a dataset or attribute."""
    array = np.asarray(value)
    if name == "/classifier":  # what skops saved, without its version
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


def words(options: Mapping[str, Any]) -> list[str]:
    """Options as a command line has them."""
    found: list[str] = []
    for name, value in options.items():
        values = value if isinstance(value, tuple) else (value,)
        found += [f"--{name.replace('_', '-')}", *(str(each) for each in values if each is not True)]
    return found


def title(method: str, options: Mapping[str, Any]) -> str:
    """A training's name: its command line."""
    return " ".join([method, *words(options)])


def _numbers(seed: int) -> Iterator[int]:
    """Whole numbers below 2^16, the same everywhere (Knuth's linear congruential generator)."""
    state = seed
    while True:
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        yield state >> 48


def write_sources(folder: Path) -> None:
    """Write `texts.jsonl` (documents of up to three labels) and `numbers.svm` (of two classes)."""
    draw, splits = _numbers(1), ("train", "train", SPLIT)
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


def digests(comm: mpi.Comm, folder: Path, methods: Collection[str] = ()) -> Digests:
    """Collective over `comm`. What these methods (none: all) make, by training; on rank 0.

    It works in the empty `folder`. A training whose package is not installed is left out.
    """
    session = Session(comm, Log(1))
    with mpi.agreed(comm, f"writing {folder}"):
        if comm.rank == 0:
            write_sources(folder)
    sources = {TEXTS: ("jsonl", "jsonl", ConvertOptions(min_df=2)), NUMBERS: ("svmlight", "svm", ConvertOptions(test_share=0.3))}
    found: Digests = {}
    for name, (kind, ending, options) in sources.items():
        convert(comm, kind, [folder / f"{name}.{ending}"], folder / f"{name}.h5", options, False, session.log)
        found[f"convert {kind}"] = _on_root(comm, {"dataset": folder / f"{name}.h5"})
    for number, (command, method, more) in enumerate([("", *each) for each in TRAININGS] + [("tune ", *each) for each in TUNED]):
        name = command + title(method, more)
        package = package_of(name, NEEDED)
        if (methods and method not in methods) or (package is not None and find_spec(package) is None):
            continue
        data, target = folder / f"{NUMBERS if method in OF_CLASSES else TEXTS}.h5", Target(folder / str(number))
        if command:
            model = tune(session, data, target, TuneOptions(method=method, folds=3, lambdas=(0.1, 1.0), **more)).model
        else:
            model = train(method, session, data, target, METHODS[method].options(**more)).model
        found[name] = _on_root(comm, {"model": model}) | _of_model(session, model, data)
    return found


def package_of(name: str, packages: Mapping[str, str]) -> str | None:
    """The package that goes with a training of that name."""
    return next((package for prefix, package in packages.items() if name.startswith(prefix)), None)


def _of_model(session: Session, model: Path, data: Path) -> dict[str, str]:
    """Collective over the session. What is made with a model; on rank 0."""
    comm, log = session.comm, session.log
    files = {name: model.with_name(f"{name}.h5") for name in ("scores", "thresholds", "sigmoids", "probabilities")}
    files["measures"] = model.with_name("measures.json")
    with opened_both(session, model, data) as (opened, dataset):
        write_scores(comm, opened, dataset, SPLIT, files["scores"], False, log)
        judged = evaluate(comm, opened, dataset, SPLIT, log)
        with mpi.agreed(comm, f"writing {files['measures']}"):
            if comm.rank == 0:
                judged.write_json(files["measures"])
        threshold(comm, opened, dataset, SPLIT, ThresholdSearch("label"), files["thresholds"], log=log)
        if isinstance(opened, Model):
            calibrate(comm, opened, dataset, SPLIT, files["sigmoids"], log=log)
            calibrated = share_model(comm, files["sigmoids"])
            predict(comm, calibrated, dataset, SPLIT, files["probabilities"], False, log, top=calibrated.n_labels)
        else:
            del files["sigmoids"], files["probabilities"]
    return _on_root(comm, files)


def _on_root(comm: mpi.Comm, files: Mapping[str, Path]) -> dict[str, str]:
    """The digests of files, of measures without the names of model and data, cut to 64 bits; on rank 0."""
    found = {}
    for name, path in files.items() if comm.rank == 0 else ():
        if path.suffix == ".h5":
            found[name] = digest(path)[:16]
        else:
            content = {**json.loads(path.read_text(encoding="utf-8")), "model": "", "data": ""}
            content.pop("intervals", None)  # follow from the measures
            found[name] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    return found


def shipped() -> Digests:
    """The digests that came with this version."""
    return json.loads(SHIPPED.read_text(encoding="utf-8"))["digests"]


def write(path: Path, found: Digests) -> None:
    """Write digests and by what they were computed. Local; raises DataError."""
    write_whole(path, (json.dumps({"made-on": computed_by(), "digests": found}, indent=1) + "\n").encode())


def difference(found: Mapping[str, str], expected: Mapping[str, str] | None) -> str:
    """In words: what of a training is not as expected; "" if all is the same."""
    if expected is None:
        return "is new"
    differing = [what for what in found if found[what] != expected.get(what)]
    return f"differs: {', '.join(differing)}" if differing else ""
