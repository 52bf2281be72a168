"""Print a digest of the numbers of a short run on 2 ranks, from texts to measures, which no version of Python may change.

usage: python tests/support/short_run.py
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

COMMANDS = (
    "convert jsonl docs.jsonl -o docs.h5 --test-share 0.3 --seed 1",
    "train dual docs.h5 -o runs/dual --loss logistic",
    "evaluate runs/dual docs.h5 --json measures.json",
)


def write_texts(path, n_rows=300):
    draw = random.Random(1)
    noise = [f"word{i}" for i in range(50)]
    with path.open("w", encoding="utf-8") as out:
        for row in range(n_rows):
            labels = [label for label in ("land", "sea", "sky") if draw.random() < 0.4]
            text = " ".join(labels + draw.choices(noise, k=20))
            out.write(json.dumps({"id": str(row), "title": "", "text": text, "labels": labels}) + "\n")


def digest_of_numbers(folder):
    digest = hashlib.sha256()
    for file in (folder / "docs.h5", folder / "runs" / "dual" / "model.h5"):
        with h5py.File(file) as opened:
            opened.visititems(lambda name, item: digest.update(name.encode() + numbers(item)))
    measures = json.loads((folder / "measures.json").read_text(encoding="utf-8"))
    digest.update(json.dumps(measures.get("macro", measures), sort_keys=True).encode())
    return digest.hexdigest()[:16]


def numbers(item):
    return item[()].tobytes() if isinstance(item, h5py.Dataset) and np.issubdtype(item.dtype, np.number) else b""


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder / "docs.jsonl")
        for command in COMMANDS:
            call = ["mpirun", "-n", "2", sys.executable, "-m", "hpcml", *command.split()]
            result = subprocess.run(call, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
            if result.returncode:
                sys.exit(f"{command}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        print(digest_of_numbers(folder))


if __name__ == "__main__":
    main()
