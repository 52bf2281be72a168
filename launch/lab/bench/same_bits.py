"""Whether two versions of hpcml train the same models: a digest of every model, to be compared with an earlier list of them.

Every method is trained on three sets at 1 and 3 ranks, by `mpirun … python -m hpcml`, whichever hpcml this Python finds (PYTHONPATH
says which); what is imported here (what is trained, and how digests are made) is this clone's. The sets are reuters (labels of at
least 300 rows; where there is one classifier for all rows, earn against all others), a9a and chess of FOLDER (by default
HPCML_DATA), or three of 200 made rows (`tiny`, and without a folder). All trainings of `hpcml check --bits` are made on all
of them, but those whose base learner cannot take the rows.

OUT.json has the digest (hpcml/check/digest.py) of each converted set and each model. With --processor all runs on a made-up
processor of processors.py, which also has scores, measures, thresholds and probabilities, of smaller data.

Exit code 1: something did not train (its digest says so), is not the same at all numbers of ranks, or is not as in EARLIER.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hpcml.check.bits import OF_CLASSES, TRAININGS, words
from hpcml.check.digest import digest
from launch.lab.bench._common import parser_of
from launch.lab.bench.processors import SETTINGS, processors, with_kernels  # which also makes sure of this clone's hpcml

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
METHODS = sorted({method for method, _ in TRAININGS})
LIMIT = 300  # seconds of a command


def run(env: dict[str, str], ranks: int, *arguments: object) -> str | None:
    """Run a command; what it ended with, unless all went well."""
    line = ["mpirun", "-n", str(ranks), sys.executable, "-m", "hpcml", *map(str, arguments)]
    try:
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
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


def digests(given: argparse.Namespace, sets: dict[str, tuple[str, ...]], env: dict[str, str], folder: Path) -> dict[str, str]:
    """The digest of every set and model, or what became of it."""
    found: dict[str, str] = {}
    sources = folder if given.data == "tiny" else Path(given.data)
    for name, (kind, source, *options) in sets.items():
        data, begin = folder / f"{name}.h5", time.monotonic()
        source = source if kind == "synthetic" else sources / source
        if failure := run(env, 2, "convert", kind, source, "-o", data, *options):
            sys.exit(f"{name} cannot be converted: {failure}")
        found[f"{name}, data"] = digest(data)
        for method, more in TRAININGS:
            arguments = [method, *words(more)]
            labels = (ONE_CLASS if method in OF_CLASSES else FEW_LABELS).get(name, ())
            for n in given.ranks if method in given.methods else []:
                failure = run(env, n, "train", method, data, "-o", folder / "run", "--force", *arguments[1:], *labels)
                found[f"{name}, {' '.join(arguments)}, {n} rank(s)"] = failure or digest(folder / "run" / "model.h5")
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


def main(words: list[str]) -> None:
    """Parse the options and run."""
    parser = parser_of("same_bits", __doc__)
    parser.add_argument("out", type=Path, metavar="OUT.json")
    parser.add_argument("--against", type=Path, metavar="EARLIER.json")
    parser.add_argument("--data", default=os.environ.get("HPCML_DATA", "tiny"), metavar="FOLDER|tiny")
    parser.add_argument("--sets", nargs="+", metavar="SET")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, metavar="METHOD")
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 3], metavar="N")
    parser.add_argument("--processor", choices=list(processors()), metavar="NAME")
    given = parser.parse_args(words)
    earlier = json.loads(given.against.read_text()) if given.against else None
    where = "import hpcml; print(f'hpcml {hpcml.__version__} in {hpcml.__path__[0]}', flush=True)"
    subprocess.run([sys.executable, "-c", where], env=SETTINGS | os.environ, check=True, timeout=LIMIT)
    known = TINY if given.data == "tiny" else REAL
    if unknown := set(given.sets or known) - set(known):
        parser.error(f"--sets {', '.join(sorted(unknown))}: expected some of {', '.join(known)}")
    with tempfile.TemporaryDirectory() as name:
        folder, env = Path(name), os.environ | SETTINGS
        if given.processor:
            env |= with_kernels(processors()[given.processor], folder / "kernels")
        if given.data == "tiny":
            make_tiny(folder)
        found = digests(given, {key: known[key] for key in given.sets or known}, env, folder)
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    wrong = problems(found, earlier)
    print("\n".join([*wrong, f"{given.out}: {len(found)} digests, {len(wrong)} problem(s)"]))
    sys.exit(bool(wrong))
