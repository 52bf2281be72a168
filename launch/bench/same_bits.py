"""Whether two versions of hpcml train the same models: a digest of every model, to be compared with an earlier list of them.

usage: python launch/bench/same_bits.py OUT.json [--against EARLIER.json] [--data FOLDER|tiny] [--sets SET ...]
       [--methods METHOD ...] [--ranks 1 3]

Every method is trained on three sets at 1 and 3 ranks, by `mpirun … python -m hpcml`, whichever hpcml this Python finds (PYTHONPATH
says which); nothing of it is imported. The sets are reuters (labels of at least 300 rows; where there is one classifier for all
rows, earn against all others), a9a and chess of FOLDER (by default HPCML_DATA), or three of 200 made rows (`tiny`, and without a
folder). All is trained on all of them, with few rounds: the convex methods with every loss, the single-pass learners plain and
voted, psbml with the bases tree, linear-svm and kernel-nb for 2 cycles, adaboost for 3 rounds.

OUT.json has for each model, and each converted set, the SHA-256 of what an HDF5 file holds: names, types, shapes and values of all
datasets and attributes in sorted order, not the bytes of the file. Left out are the attribute `hpcml-version` (the number of the
format) and, in a saved classifier and in the attribute `base`, the version of skops and the modules where hpcml keeps its classes
(`hpcml.psbml.naive_bayes.KernelNB` counts as `hpcml.KernelNB`). No other attribute holds a time, a version or a
path.

Exit code 1: something did not train (its digest says so), is not the same at all numbers of ranks, or is not as in EARLIER.json.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import h5py
import numpy as np

REAL = {
    "reuters": ("jsonl", "reuters21578.jsonl.xz", "--min-df", "5"),
    "a9a": ("svmlight", "a9a.svm.xz"),
    "chess": ("svmlight", "chess.svm.xz"),
}
TINY = {
    "topics": ("jsonl", "topics.jsonl"),
    "pairs": ("svmlight", "pairs.svm"),
    "checkerboard": ("synthetic", "checkerboard", "--rows", "200"),
}
ONE_CLASS = {"reuters": ("--label", "earn"), "topics": ("--label", "topic 0")}  # where rows have several labels or none
FEW_LABELS = {"reuters": ("--min-positives", "300")}
CONVEX = (
    *("probe --loss hinge", "probe --loss huber", "probe --loss logistic", "dual --loss hinge", "dual --loss squared-hinge"),
    *("pegasos --max-steps 50", "svmperf", "liblinear"),
)
ONLINE = tuple(f"{name}{voted}" for name in ("pw", "bw", "mbw", "perceptron", "pa", "romma") for voted in ("", " --voted"))
BOOSTED = (*(f"psbml --cycles 2 --base {base}" for base in ("tree", "linear-svm", "kernel-nb")), "adaboost --rounds 3")
METHODS = sorted({arguments.split()[0] for arguments in (*CONVEX, *ONLINE, *BOOSTED)})
NOT_CONTENT = {"hpcml-version"}
# MPICH's ranks that wait let others compute, there may be more than cores; the hpcml of the working folder is not preferred.
SETTINGS = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1", "PYTHONSAFEPATH": "1"}
LIMIT = 300  # seconds of a command


def without_modules(text: str) -> str:
    """A text in which hpcml's classes have no modules."""
    return re.sub(r"\bhpcml(\.[a-z_0-9]+)+\b", "hpcml", text)


def classifier_parts(dump: bytes) -> bytes:
    """What a classifier saved by skops, a ZIP archive of arrays and their description, is made of."""
    with zipfile.ZipFile(io.BytesIO(dump)) as archive:
        parts = {name: archive.read(name) for name in sorted(archive.namelist())}
    description = json.loads(without_modules(parts["schema.json"].decode()))
    description.pop("_skops_version", None)
    parts["schema.json"] = json.dumps(description, sort_keys=True).encode()
    return b"".join(f"{name} {len(part)}\n".encode() + part for name, part in parts.items())


def content(name: str, value: object) -> bytes:
    """Type, shape and values of a dataset or attribute."""
    array = np.asarray(value)
    if name == "/classifier":
        return classifier_parts(array.tobytes())
    if array.dtype == object or array.dtype.kind in "SU":  # texts
        texts = [each.decode() if isinstance(each, bytes) else str(each) for each in array.reshape(-1).tolist()]
        return json.dumps([array.shape, [without_modules(text) for text in texts] if name == "/@base" else texts]).encode()
    return f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()


def digest(path: Path) -> str:
    """The SHA-256 of what an HDF5 file holds."""
    found: dict[str, bytes] = {}

    def look(name: str, node: h5py.Group | h5py.Dataset) -> None:
        found[name] = content(name, node[()]) if isinstance(node, h5py.Dataset) else b"group"
        found.update({f"{name}@{key}": content(f"{name}@{key}", node.attrs[key]) for key in node.attrs if key not in NOT_CONTENT})

    with h5py.File(path) as file:
        look("/", file)
        file.visititems(lambda name, node: look(f"/{name}", node))
    parts = (f"{name} {hashlib.sha256(part).hexdigest()}\n".encode() for name, part in sorted(found.items()))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def run(ranks: int, *arguments: object) -> str | None:
    """Run a command; what it ended with, unless all went well."""
    line = ["mpirun", "-n", str(ranks), sys.executable, "-m", "hpcml", *map(str, arguments)]
    try:
        done = subprocess.run(
            line, env=SETTINGS | os.environ, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"not done after {LIMIT} s"
    if done.returncode:
        print(f"{' '.join(line)}\n{done.stdout}{done.stderr}", file=sys.stderr, flush=True)
    return f"exit code {done.returncode}" if done.returncode else None


def make_tiny(folder: Path) -> None:
    """Write the sources of the tiny sets: documents of up to three topics, and rows of two classes without negative values."""
    rng = np.random.default_rng(0)
    with (folder / "topics.jsonl").open("w") as out:
        for row in range(200):
            topics = [topic for topic in range(3) if rng.random() < 0.4]
            words = rng.choice(90, 12) % 30 + 20 * rng.choice([*topics, 3], 12)
            text = " ".join(f"word{word}" for word in words.tolist())
            out.write(json.dumps({"id": str(row), "text": text, "labels": [f"topic {topic}" for topic in topics]}) + "\n")
    with (folder / "pairs.svm").open("w") as out:
        for x in rng.random((200, 12)):
            values = " ".join(f"{j + 1}:{value:.3f}" for j, value in enumerate(x) if value > 0.5)
            out.write(f"{'+1' if x[0] + x[1] > 1 else '-1'} {values}\n")


def digests(sets: dict[str, tuple[str, ...]], sources: Path, methods: list[str], ranks: list[int], folder: Path) -> dict[str, str]:
    """The digest of every set and model, or what became of it."""
    found: dict[str, str] = {}
    for name, (kind, source, *options) in sets.items():
        data, begin = folder / f"{name}.h5", time.monotonic()
        source = source if kind == "synthetic" else sources / source
        if failure := run(2, "convert", kind, source, "-o", data, *options):
            sys.exit(f"{name} cannot be converted: {failure}")
        found[f"{name}, data"] = digest(data)
        for arguments in (*CONVEX, *ONLINE, *BOOSTED):
            method, *more = arguments.split()
            more += (ONE_CLASS if arguments in BOOSTED else FEW_LABELS).get(name, ())
            for n in ranks if method in methods else []:
                failure = run(n, "train", method, data, "-o", folder / "run", "--force", *more)
                found[f"{name}, {arguments}, {n} rank(s)"] = failure or digest(folder / "run" / "model.h5")
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    return found


def problems(found: dict[str, str], earlier: dict[str, str] | None) -> list[str]:
    """What was not trained, depends on the number of ranks, or is not as it was earlier."""
    wrong = [f"{name}: {said}" for name, said in found.items() if len(said) < 64]
    alike: dict[str, set[str]] = {}
    for name, value in found.items():
        alike.setdefault(re.sub(r", \d+ rank\(s\)$", "", name), set()).add(value)
    wrong += [f"{name}: differs between numbers of ranks" for name, values in alike.items() if len(values) > 1]
    if earlier is not None:
        changed = [name for name, value in found.items() if earlier.get(name) != value]
        wrong += [f"{name}: {'differs' if name in earlier else 'is new'}" for name in changed]
        print(f"compared with what was earlier: {len(found)}, differing: {len(changed)}")
    return wrong


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT.json")
    parser.add_argument("--against", type=Path, metavar="EARLIER.json")
    parser.add_argument("--data", default=os.environ.get("HPCML_DATA", "tiny"), metavar="FOLDER|tiny")
    parser.add_argument("--sets", nargs="+", metavar="SET")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, metavar="METHOD")
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 3], metavar="N")
    given = parser.parse_args()
    earlier = json.loads(given.against.read_text()) if given.against else None
    where = "import hpcml; print(f'hpcml {hpcml.__version__} in {hpcml.__path__[0]}', flush=True)"
    subprocess.run([sys.executable, "-c", where], env=SETTINGS | os.environ, check=True, timeout=LIMIT)
    known = TINY if given.data == "tiny" else REAL
    if unknown := set(given.sets or known) - set(known):
        parser.error(f"--sets {', '.join(sorted(unknown))}: expected some of {', '.join(known)}")
    with tempfile.TemporaryDirectory() as name:
        folder, sets = Path(name), {key: known[key] for key in given.sets or known}
        if given.data == "tiny":
            make_tiny(folder)
        found = digests(sets, folder if given.data == "tiny" else Path(given.data), given.methods, given.ranks, folder)
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    wrong = problems(found, earlier)
    print("\n".join([*wrong, f"{given.out}: {len(found)} digests, {len(wrong)} problem(s)"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
