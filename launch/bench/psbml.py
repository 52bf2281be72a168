"""The experiments of the PSBML paper on our copies of its data: every run is a command that a user could give.

usage: python launch/bench/psbml.py EXPERIMENT [--ranks 2] [--seeds 10] [--rows N] [--only SET] [--folder FOLDER] [--published FILE]
EXPERIMENT: seconds, table4, noise, chess, sizes, asynchronous, checkerboard, scale, kdd. HPCML_DATA names the folder with the data.

One line of JSON for each run, then a table. Figures of the paper stand beside ours where FILE has them.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

DATA = Path(os.environ.get("HPCML_DATA", "data"))
NAMES = {"a9a": "Adult", "w8a": "W8A", "ijcnn1": "ICJNN1", "covtype": "Cover"}  # in the paper
LIMIT = 3600
SKLEARNS_TREE = "sklearn.tree.DecisionTreeClassifier criterion=entropy min_samples_leaf=2"


def run(*command: object, ranks: int = 1) -> tuple[float, str]:
    """Seconds and output of a command, on so many ranks."""
    begin = time.monotonic()
    line = ["mpirun", "-n", str(ranks), "hpcml", *map(str, command)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(line)}\n{done.stdout}{done.stderr}")
    return time.monotonic() - begin, done.stdout + done.stderr


def source(name: str) -> Path:
    """The svmlight file of a data set."""
    return DATA / f"{name}.svm.xz"


def dataset(name: str, folder: Path, seed: int, noise: float = 0.0, test_share: float = 0.3) -> tuple[Path, Path]:
    """A data set with split train and where its test rows are: its own test file, else a random share, another for each seed."""
    extra = ["--label-noise", noise, "--seed", seed] if noise else []
    own_test = source(f"{name}.t").exists()
    path = folder / (f"{name}-{noise}-{0 if own_test and not noise else seed}.h5")
    if not path.exists():
        extra += [] if own_test else ["--test-share", test_share, *([] if noise else ["--seed", seed])]
        run("convert", "svmlight", source(name), "-o", path, *extra)
    if not own_test:
        return path, path
    test = folder / f"{name}.t.h5"
    if not test.exists():
        run("convert", "svmlight", source(f"{name}.t"), "-o", test, "--like", path)
    return path, test


def judge(model: Path, test: Path, folder: Path, ranks: int) -> dict[str, float]:
    """ROC and PRC area and misclassified rows of a model, in per cent and rows."""
    out = folder / "measures.json"
    run("evaluate", model, test, "--json", out, "--force", ranks=ranks)
    micro = json.loads(out.read_text())["micro"]
    return {"roc": 100 * micro["auc"], "prc": 100 * micro["average_precision"], "misclassified": micro["misclassified"]}


def train(method: str, data: Path, test: Path, folder: Path, ranks: int, *options: object) -> dict[str, float]:
    """Train a model and judge it."""
    wall, said = run("train", method, data, "-o", folder / "run", "--force", *options, ranks=ranks)
    found = re.search(r"in ([\d.]+) s", said)
    result = {"seconds": float(found[1]) if found else wall, "wall": wall}
    return result | judge(folder / "run" / "model.h5", test, folder, ranks)


def alone(base: str, data: Path, test: Path) -> dict[str, float]:
    """The base learner itself, trained on all training rows."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    from hpcml.data.dataset import DataFile, default_split
    from hpcml.data.shard import read_rows
    from hpcml.model.learner import fit, parse_learner, scores

    learner = parse_learner(base.split())
    parts = []
    for path, wanted in ((data, "train"), (test, "test")):
        with DataFile(path) as opened:
            rows = opened.split(default_split(opened, wanted))
            dense = learner.wants_dense(opened.n_rows, opened.n_features, opened.nnz)
            parts += [read_rows(opened, np.array(rows), dense), np.diff(opened.map("Y/indptr"))[rows]]
    X, y, X_test, y_test = parts
    begin = time.monotonic()
    classifier = fit(learner, X, y, 0)
    seconds = time.monotonic() - begin
    score = scores(classifier, X_test, 2)[:, 0]
    areas = {"roc": 100 * roc_auc_score(y_test, score), "prc": 100 * average_precision_score(y_test, score)}
    return {"seconds": seconds, **areas, "misclassified": float(((score > 0) != (y_test == 1)).sum())}


def say(**line: object) -> None:
    """A line of JSON."""
    print(json.dumps(line), flush=True)


def whole(name: str, folder: Path, rows: int | None = None) -> Path:
    """A data set without splits, or so many rows of it, drawn at random."""
    path = folder / (f"{name}.h5" if rows is None else f"{name}-{rows}.h5")
    if not path.exists():
        text = source(name)
        if rows is not None:
            with lzma.open(text, "rt") as file:
                lines = file.readlines()
            text = path.with_suffix(".svm")
            chosen = np.sort(np.random.default_rng(0).permutation(len(lines))[:rows])
            text.write_text("".join(lines[k] for k in chosen))
        run("convert", "svmlight", text, "-o", path)
    return path


def paired(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """The mean difference and the p-value of a paired t-test."""
    from scipy.stats import ttest_rel

    return float(np.mean(np.subtract(ours, theirs))), float(ttest_rel(ours, theirs).pvalue)


def table4(arguments: argparse.Namespace, folder: Path, published: dict) -> Iterator[str]:
    """PSBML beside cycle 0, its base learner on all training rows: 3 × 3, C9, Pr 0.2, 20 cycles; ROC areas, paired t-tests."""
    for base, row in (("kernel-nb", "NB"), ("linear-svm", "Linear SVM"), ("tree", "C4.5")):
        for name in arguments.only or NAMES:
            data = whole(name, folder, arguments.rows)
            output = folder / f"table4-{data.stem}-{base}"
            again = "--resume" if (output / "config.toml").exists() else "--force"
            options = ("--base", base, "--seeds", arguments.seeds, *arguments.option)
            _, said = run("train", "psbml", data, "-o", output, again, *options, ranks=arguments.ranks)
            paper = [published.get("table4_roc", {}).get(key, {}).get(NAMES[name], "-") for key in (row, f"PSBML {row}")]
            with (output / "seeds.csv").open() as file:
                left = np.mean([float(line["distinct_rows"]) for line in csv.DictReader(file)])
            yield f"{name} {base}; rows left: {left:.0f}; paper {paper[0]} {paper[1]}\n{said}"


def noise(arguments: argparse.Namespace, folder: Path, published: dict) -> Iterator[str]:
    """Classes of 0, 10 and 20 % of the training rows changed; impact = mean over the data of |ROC without noise − ROC with it|."""
    import psbml_noise  # beside this file

    sets = arguments.only or [*NAMES, "kdd99_10pct_train", "chess", "nursery", "breast_w"]
    paths = [whole(name, folder) for name in sets]
    seeds = range(arguments.seeds)
    found = psbml_noise.run_all(paths, seeds, arguments.rows or 4000, folder, arguments.ranks)
    yield from psbml_noise.tables(found, sets, seeds, published.get("table8_roc_noise", {}), NAMES)


def asynchronous(arguments: argparse.Namespace, folder: Path, published: dict) -> Iterator[str]:
    """Asynchronous beside synchronous by the clock, the first rank slowed by half, seeds of one split; see `beside`."""
    yield "| data | ROC area | difference | lowest error | difference | time | to the lowest error | paper's time |"
    yield "|---|---|---|---|---|---|---|---|"
    base = [] if any(option.startswith("--base") for option in arguments.option) else ["--base", "kernel-nb"]
    for name in arguments.only or NAMES:
        found: dict[str, list[dict]] = {"sync": [], "async": []}
        data, test = asynchronous_data(name, folder)
        for seed in range(arguments.seeds):
            for mode, flags in (("sync", ()), ("async", ("--asynchronous",))):
                options = (*base, "--seed", seed, "--slow-rank", 0, "--slow-factor", 2, *flags, *arguments.option)
                course = watched("train", "psbml", data, "-o", folder / "run", "--force", *options, ranks=arguments.ranks)
                found[mode].append({"course": course} | judge(folder / "run" / "model.h5", test, folder, arguments.ranks))
                say(experiment="asynchronous", data=name, mode=mode, seed=seed, **found[mode][-1])
        faster = published.get("table6_roc", {}).get("async_speedup_fraction", {}).get(NAMES.get(name))
        yield f"| {name} | {beside(found['sync'], found['async'])} | {'' if faster is None else f'{1 - faster:.2f}'} |"


def asynchronous_data(name: str, folder: Path, most: int = 50_000) -> tuple[Path, Path]:
    """A data set as `dataset` gives it, split once; of a larger one so many rows, drawn at random."""
    path = folder / f"{name}-{most}.h5"
    if source(f"{name}.t").exists():
        return dataset(name, folder, 0)
    if not path.exists():
        lines, text = lzma.decompress(source(name).read_bytes()).splitlines(keepends=True), path.with_suffix(".svm")
        some = np.sort(np.random.default_rng(0).permutation(len(lines))[:most])
        text.write_bytes(b"".join(lines[i] for i in some))
        run("convert", "svmlight", text, "-o", path, "--test-share", 0.3)
    return path, path


def watched(*command: object, ranks: int) -> list[tuple[float, float]]:
    """Run a training: for each cycle the seconds since training began when its validation error was told, and that error in %."""
    line, course, said, begin = ["mpirun", "-n", str(ranks), "hpcml", *map(str, command)], [], [], 0.0
    with subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        for text in process.stderr:
            said.append(text)
            if text.startswith("training "):
                begin = time.monotonic()
            if told := re.match(r"cycle .*validation error ([\d.]+) %", text):
                course.append((time.monotonic() - begin, float(told[1])))
    if process.returncode:
        sys.exit(f"{' '.join(line)}\n{''.join(said)}")
    return course


def beside(ours: list[dict], theirs: list[dict]) -> str:
    """Columns of a table, of synchronous and asynchronous runs: mean ± standard deviation over the seeds, medians of time's shares.

    The time to the lowest error is that until a cycle was told that is no worse than the best one of the synchronous run of the
    seed; runs that never get there count as endless.
    """

    def spread(values: list[float]) -> str:
        return f"{np.mean(values):+.2f} ± {np.std(values, ddof=1) if len(values) > 1 else np.nan:.2f}"

    lowest = [[min(error for _, error in each["course"]) for each in runs] for runs in (ours, theirs)]
    until = [
        [next((at for at, error in each["course"] if error <= least), np.inf) for each, least in zip(runs, lowest[0], strict=True)]
        for runs in (ours, theirs)
    ]
    whole = [b["course"][-1][0] / a["course"][-1][0] for a, b in zip(ours, theirs, strict=True)]
    ratios = np.divide(until[1], until[0])
    areas = [b["roc"] - a["roc"] for a, b in zip(ours, theirs, strict=True)]
    errors = np.subtract(lowest[1], lowest[0]).tolist()
    columns = (f"{np.mean([a['roc'] for a in ours]):.2f}", spread(areas), f"{np.mean(lowest[0]):.2f}", spread(errors))
    reached = f"{np.isfinite(ratios).sum()} of {len(ours)}"
    return " | ".join((*columns, f"{np.median(whole):.2f}", f"{np.median(ratios):.2f} ({reached})"))


def checkerboard(arguments: argparse.Namespace, folder: Path, published: dict) -> Iterator[str]:
    """A million rows, tree, 3 × 3, C9, 10 cycles; scikit-learn's RBF SVC on the largest size that it does in 5 minutes."""
    from hpcml.data.dataset import DataFile

    for name in arguments.only or ("checkerboard", "sine"):
        data = folder / f"{name}.h5"
        options = ("--rows", 1_000_000, "--seed", 1, "--test-share", 0.1, "--force")
        run("convert", "synthetic", name, "-o", data, *options, ranks=arguments.ranks)
        result = train("psbml", data, data, folder, arguments.ranks, "--base", "tree", "--cycles", 10)
        tree = alone("tree", data, data)
        paper = published.get("table5_seconds_accuracy", {}).get(name, {})
        with DataFile(data) as opened:
            n_test = opened.split("test").size
        say(experiment="checkerboard", data=name, who="psbml", **result)
        say(experiment="checkerboard", data=name, who="tree", **tree)
        accuracy, of_tree = (100 - 100 * r["misclassified"] / n_test for r in (result, tree))
        theirs = paper.get("PSBML C4.5")
        yield f"{name}: PSBML {accuracy:.2f} %, {result['seconds']:.1f} s; one tree {of_tree:.2f} %; paper {theirs}"
        for n_rows in (40_000, 80_000, 160_000, 320_000, 640_000, 900_000):
            line = svc(data, n_rows)
            say(experiment="checkerboard", data=name, who="svc", n_rows=n_rows, **line)
            theirs = paper.get("LibSVM RBF")
            yield f"{name}: RBF SVC, {n_rows:,} rows: {line['accuracy']:.2f} %, {line['seconds']:.1f} s; paper {theirs}"
            if line["seconds"] > 100:  # three times as long at twice the size
                break


def svc(data: Path, n_rows: int) -> dict[str, float]:
    """scikit-learn's RBF SVC on the first training rows; C = 100, gamma by a small search on 5,000 rows."""
    from sklearn.svm import SVC

    from hpcml.data.dataset import DataFile
    from hpcml.data.shard import read_rows

    with DataFile(data) as opened:
        y = np.diff(opened.map("Y/indptr"))
        rows, test = np.array(opened.split("train")[:n_rows]), np.array(opened.split("test")[:20_000])
        X, X_test = read_rows(opened, rows, True), read_rows(opened, test, True)
    tuned = [(SVC(C=c, gamma=g).fit(X[:5000], y[rows[:5000]]).score(X_test, y[test]), c, g) for c in (10, 1000) for g in (10, 100)]
    _, c, gamma = max(tuned)
    begin = time.monotonic()
    classifier = SVC(C=c, gamma=gamma, cache_size=2000).fit(X, y[rows])
    seconds = time.monotonic() - begin
    return {"seconds": seconds, "accuracy": 100 * classifier.score(X_test, y[test]), "C": c, "gamma": gamma}


def scale(arguments: argparse.Namespace, folder: Path, published: dict) -> Iterator[str]:
    """Seconds and memory of PSBML with a tree against the rows (checkerboard), 1 and 2 ranks interleaved; fitted exponents."""
    sizes, seconds, memory = [10_000, 31_623, 100_000, 316_228, 1_000_000], {1: [], 2: []}, []
    for n_rows in sizes:
        data = folder / f"scale-{n_rows}.h5"
        run("convert", "synthetic", "checkerboard", "--rows", n_rows, "--seed", 1, "-o", data, "--force")
        for ranks in (1, 2):
            times = []
            for _ in range(1 if n_rows > 400_000 else 2):
                measured = measured_train(data, folder, ranks)
                times.append(measured["seconds"])
                say(experiment="scale", n_rows=n_rows, ranks=ranks, **measured)
            seconds[ranks].append(min(times))
            if ranks == 1:
                memory.append(measured["mib"])
    for ranks, values in seconds.items():
        slope = np.polyfit(np.log(sizes[1:]), np.log(values[1:]), 1)[0]
        yield (
            f"{ranks} rank(s): "
            + ", ".join(f"{n:,}: {s:.2f} s" for n, s in zip(sizes, values, strict=True))
            + f"; exponent {slope:.2f}"
        )
    grown = np.polyfit(np.log(sizes[2:]), np.log(np.subtract(memory, memory[0])[2:]), 1)[0]
    yield "memory of one rank, MiB: " + ", ".join(f"{m:.0f}" for m in memory) + f"; exponent of what is above the first {grown:.2f}"
    yield "speed-up of 2 ranks: " + ", ".join(f"{a / b:.2f}" for a, b in zip(seconds[1], seconds[2], strict=True))


def measured_train(data: Path, folder: Path, ranks: int) -> dict[str, float]:
    """Train on the checkerboard; seconds of training, and the greatest resident memory of any process."""
    command = ["hpcml", "train", "psbml", str(data), "-o", str(folder / "run"), "--force", "--cycles", "10"]
    line = ["mpirun", "-n", str(ranks), *command]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    said, peak = [], 0.0
    for text in process.stderr:
        said.append(text)
    process.wait(LIMIT)
    import resource

    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # of the largest child so far: sizes ascend
    return {"seconds": float(re.search(r"trained in ([\d.]+) s", "".join(said))[1]), "mib": peak}


def chess(arguments: argparse.Namespace, folder: Path, published: dict) -> Iterator[str]:
    """Chess, 5 × 5: error on held-out rows and distinct rows by cycle, four neighbourhoods, four Pr (figure 7); a picture."""
    curves: dict[tuple[str, str], np.ndarray] = {}
    for what, values in (("neighbourhood", ("L5", "L9", "C9", "C13")), ("replace", ("0.1", "0.2", "0.4", "0.6"))):
        for value in values:
            runs = []
            for seed in range(arguments.seeds):
                data, _ = dataset("chess", folder, 0)
                options = ("--base", "kernel-nb", "--cycles", 30, "--seed", seed, "--grid", "5x5", "--validation-share", 0.3)
                run("train", "psbml", data, "-o", folder / "run", "--force", f"--{what}", value, *options, "--split", "all")
                with (folder / "run" / "history.csv").open() as history:
                    lines = list(csv.DictReader(history))
                runs.append([(100 * float(line["error"]), float(line["distinct_rows"])) for line in lines])
            curves[what, value] = np.mean(runs, axis=0)
            error = curves[what, value][:, 0]
            say(experiment="chess", **{what: value}, error=error.tolist(), distinct_rows=curves[what, value][:, 1].tolist())
            at = ", ".join(f"{error[cycle - 1]:.2f}" for cycle in (1, 5, 10, 20, 30))
            yield f"{what} {value}: error, % (cycles 1, 5, 10, 20, 30): {at}; least {error.min():.2f} at {1 + int(error.argmin())}"
    draw_chess(curves, folder / "chess.png")
    yield f"picture: {folder / 'chess.png'}"


def draw_chess(curves: dict[tuple[str, str], np.ndarray], path: Path) -> None:
    """Figure 7: three panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4.2), layout="constrained")
    panels = (("neighbourhood", 0, "error, %"), ("replace", 0, "error, %"), ("replace", 1, "distinct rows"))
    for axes, (what, column, label) in zip(figure.subplots(1, 3), panels, strict=True):
        for (kind, value), curve in curves.items():
            if kind == what:
                axes.plot(
                    np.arange(1, len(curve) + 1), curve[:, column], label=value if what == "neighbourhood" else f"Pr = {value}"
                )
        axes.set(xlabel="cycle", ylabel=label)
        axes.legend()
    figure.savefig(path, dpi=120)


def sizes(arguments: argparse.Namespace, folder: Path, published: dict) -> Iterator[str]:
    """Grid sizes 3×3 to 7×7, naive Bayes (table 2)."""
    for name in arguments.only or ("chess", "a9a", "w8a", "ijcnn1"):
        row = []
        for side in (3, 4, 5, 6, 7):
            areas = []
            for seed in range(arguments.seeds):
                data, test = dataset(name, folder, seed)
                options = ("--base", "kernel-nb", "--grid", f"{side}x{side}", "--seed", seed)
                result = train("psbml", data, test, folder, arguments.ranks, *options)
                say(experiment="sizes", data=name, side=side, seed=seed, **result)
                areas.append(result["roc"])
            row.append(float(np.mean(areas)))
        paper = published.get("table2_roc_by_grid_size", {}).get("Chess") if name == "chess" else None
        yield f"{name}: " + ", ".join(f"{value:.2f}" for value in row) + f"; range {max(row) - min(row):.2f}; paper {paper}"


def kdd(arguments: argparse.Namespace, folder: Path, published: dict) -> Iterator[str]:
    """KDD Cup 1999 (10 % file, test file): PSBML with a tree beside LIBLINEAR and AdaBoostM1, in one run."""
    data, test = folder / "kdd.h5", folder / "kdd.t.h5"
    if not test.exists():
        run("convert", "svmlight", source("kdd99_10pct_train"), "-o", data, "--force")
        run("convert", "svmlight", source("kdd99_test"), "-o", test, "--like", data, "--force")
    paper = published.get("table7_kdd99_seconds_misclassified_roc_prc", {})
    for who, there in (("linear-svm", "LibLinear"), ("tree", "-")):
        result = alone(who, data, test)
        say(experiment="kdd", who=who, **result)
        yield kdd_line(who, result, paper.get(there))
    for base in ("stump", "tree"):
        result = train("adaboost", data, test, folder, 1, "--base", base)
        say(experiment="kdd", who=f"adaboost {base}", **result)
        yield kdd_line(f"adaboost {base}", result, paper.get("AdaBoostM1"))
    found = []
    for seed in range(arguments.seeds):
        found.append(train("psbml", data, test, folder, arguments.ranks, "--base", "tree", "--cycles", 10, "--seed", seed))
        say(experiment="kdd", who="psbml tree", seed=seed, **found[-1])
    mean = {key: float(np.mean([result[key] for result in found])) for key in found[0]}
    yield kdd_line(f"psbml tree ({len(found)} seeds)", mean, paper.get("PSBML C4.5"))


def kdd_line(who: str, result: dict, paper: object) -> str:
    """A row of table 7."""
    quality = f"misclassified {result['misclassified']:9.1f}  ROC {result['roc']:.2f}  PRC {result['prc']:.2f}"
    return f"{who:22} {result['seconds']:8.1f} s  {quality}   paper {paper}"


def seconds(arguments: argparse.Namespace, folder: Path, published: dict) -> Iterator[str]:
    """Seconds of the whole command and of its training on two classes of three Gaussians each, 10 features, 6 cycles."""
    for n_rows in (50_000, 200_000):
        data = folder / f"gaussians-{n_rows}.h5"
        if not data.exists():
            random = np.random.default_rng(1)
            y = random.integers(0, 2, n_rows)
            X = random.normal(size=(2, 3, 10))[y, random.integers(0, 3, n_rows)] + 1.2 * random.normal(size=(n_rows, 10))
            lines = (
                f"{2 * c - 1} " + " ".join(f"{j}:{v:.6g}" for j, v in enumerate(x, 1)) for c, x in zip(y, X.tolist(), strict=True)
            )
            text = data.with_suffix(".svm")
            text.write_text("\n".join(lines) + "\n")
            run("convert", "svmlight", text, "-o", data, "--test-share", 0.1)
        for base in arguments.only or ("kernel-nb", "gaussian-nb", "tree", SKLEARNS_TREE):
            walls, trained = [], []
            for _ in range(arguments.seeds):
                command = ("train", "psbml", data, "-o", folder / "run", "--force", "--base", *base.split(), "--cycles", 6)
                wall, said = run(*command, ranks=arguments.ranks)
                walls.append(wall)
                trained.append(float(re.search(r"trained in ([\d.]+) s", said)[1]))
            yield f"{n_rows:,} rows, {base}: {np.median(walls):.2f} s, of which training {np.median(trained):.2f} s"


EXPERIMENTS: dict[str, Callable] = {
    f.__name__: f for f in (seconds, table4, noise, asynchronous, checkerboard, scale, chess, sizes, kdd)
}


def main() -> None:
    """Parse the command line and run one experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=sorted(EXPERIMENTS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--option", action="append", default=[], help="one more of `hpcml train psbml` (table4, asynchronous): --option=--judge=auc"
    )
    parser.add_argument(
        "--rows", type=int, help="use so many rows of a set (table4: of all, default all; noise: to train on, 4,000)"
    )
    parser.add_argument("--only", action="append", help="a data set (may be repeated)")
    parser.add_argument("--folder", type=Path, default=Path("bench-psbml"))
    parser.add_argument("--published", type=Path, default=DATA.parent / "published" / "psbml.json")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    published = json.loads(arguments.published.read_text()) if arguments.published.exists() else {}
    lines = []
    for line in EXPERIMENTS[arguments.experiment](arguments, arguments.folder, published):
        print(line, flush=True)
        lines.append(line)
    print("\n" + "\n".join([EXPERIMENTS[arguments.experiment].__doc__, *lines]))


if __name__ == "__main__":
    main()
