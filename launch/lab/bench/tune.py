"""What `hpcml tune` is worth: measures of test rows and seconds beside training once; a grid search; the leak of idf.

usage: [mpirun -n 2] python launch/bench/tune.py DATA.h5 … [--min-positives 10] [--seed 0]
       python launch/bench/tune.py DATA.h5 … --check 20 [--min-positives 10] [--seed 0]
       python launch/bench/tune.py DATA.h5 … --margins 80 [--min-positives 10] [--seed 0]
       python launch/bench/tune.py DATA.h5 --text TEXT.jsonl.xz --min-df 5 [--sample 200] [--min-positives 10] [--seed 0]

The first judges, on the split test, `hpcml train dual` with its defaults, and models of `hpcml tune`: with one setting (the
thresholds alone), with its defaults, and `--one`. `lost` names what is worse than by the defaults by more than 0.002 (P@k and nDCG:
0.005): F1 beside the thresholds alone, all else beside `train dual`. Seconds are those of a call less those of a call that trains
one label, so without loading. CPU seconds are user seconds of all ranks; on several ranks they count the waiting, too.

`--check N` takes N labels, evenly over the order by frequency, and scores each row by models of the other folds at all settings,
three times: as tune does (few sweeps), by DualClassifier to the tolerance 0.1, and by GridSearchCV over LinearSVC with the same
folds. tune and `solutions` take the average precision of the scores of all folds together, the search the mean over the folds.
tune makes it from a summary of the scores, which has ties; `exact` is without. `lost` is the score of the best setting less that of
the setting that tune would take for the label alone: by the solutions' scores, and by those of the search.

`--margins N` says by how much another setting must be better than the default to be taken: half of the training rows choose for N
labels, by scores of the folds, and the others judge: the change of AP and of F1 at its best threshold, and the share of others.

`--text` gives the JSON lines that DATA was made of. The words and idf of each fold are made from the other folds alone, which
is compared with words and idf of all training rows. `test AP` is that of test rows, with each label at the setting that was chosen
for it. A sample is as in `--check`. Prints JSON lines.
"""

from __future__ import annotations

import argparse
import json
import lzma
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from defaults import matrix
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import hpcml
from hpcml import mpi
from hpcml.data.compact import CompactRows, compact_rows
from hpcml.data.shard import load_shard
from hpcml.evaluation.decision import Summary, summarise
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.train import METHOD
from hpcml.methods.linear.settings import Setting
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER
from hpcml.tuning.choose import best_of, choose
from hpcml.tuning.cross import MEASURE, Crossed, CrossFits
from hpcml.tuning.folds import Fold, deal, fold_rows
from hpcml.tuning.grid import Grid, concrete, default_of

FOLDS = 5
ALONE = "tune, one setting"
OF_ROWS, OF_THRESHOLDS = ("p1", "p3", "p5", "ndcg5"), ("macro_f1", "micro_f1")
WAYS: dict[str, dict[str, Any]] = {ALONE: {"lambdas": (1.0,), "weights": (1.0,)}, "tune": {}, "tune --one": {"one": True}}


def timed(comm: mpi.Comm, work: Callable[[], Any]) -> tuple[Any, np.ndarray]:
    """Collective over `comm`. What `work` gives, and its seconds: user seconds of all ranks, and wall."""
    comm.Barrier()
    user, wall = resource.getrusage(resource.RUSAGE_SELF).ru_utime, time.perf_counter()
    found = work()
    wall, user = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF).ru_utime - user
    return found, np.array([comm.allreduce(user), wall])


def worth(comm: mpi.Comm, data: Path, given: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Collective over `comm`. The measures and seconds of every way of training."""
    with hpcml.Dataset(data) as dataset:
        n_positive = np.bincount(matrix(dataset.file["Y"])[np.array(dataset.split("train"))].indices, minlength=dataset.n_labels)
        frequent = dataset.label_names()[int(np.argmax(n_positive))]
    common = {"min_positives": given.min_positives, "seed": given.seed}

    def train(**options: Any) -> Any:
        return hpcml.train("dual", data, folder / "run", **{**common, **options}, comm=comm, force=True)

    def tune(**options: Any) -> Any:
        return hpcml.tune(data, folder / "run", comm=comm, force=True, **{**common, **options})

    tune(label=[frequent], lambdas=(1.0,), weights=(1.0, 4.0))  # compiles
    train()
    _, loading = timed(comm, lambda: train(label=[frequent]))
    once, defaults = np.ones(2), dict[str, Any]()
    for name in ("train dual", *WAYS):
        report, seconds = timed(comm, train if name == "train dual" else partial(tune, **WAYS[name]))
        seconds = np.maximum(seconds - loading, 0.001)
        once = seconds if name == "train dual" else once
        trained = range(hpcml.open_model(report.model).n_labels)  # rarer labels are not judged
        judged = hpcml.evaluate(report.model, data, split="test", labels=trained, comm=comm)
        line = {"data": data.stem, "ranks": comm.size, "way": name, "labels": len(judged.label_names)}
        line |= {f"p{k}": value for k, value in judged.precision_at.items()} | {"ndcg5": judged.ndcg_at.get(5)}
        line |= {"micro_ap": judged.micro["average_precision"], "ordered_by": judged.compared_by}
        line |= {"map": judged.macro("average_precision"), "macro_f1": judged.macro("f1"), "micro_f1": judged.micro["f1"]}
        defaults |= line if name == "train dual" else {f: line[f] for f in OF_THRESHOLDS if name == ALONE}
        line |= {"lost": worse(line, defaults)}
        line |= {"user_s": seconds[0], "wall_s": seconds[1], "ratio_user": seconds[0] / once[0], "ratio_wall": seconds[1] / once[1]}
        yield rounded(line) | {"chosen": getattr(report, "chosen", [])}


def worse(line: dict[str, Any], defaults: dict[str, Any]) -> list[str]:
    """The measures that are worse than by the defaults, beyond what a split may do by chance."""
    allowed = {name: 0.005 if name in OF_ROWS else 0.002 for name in (*OF_ROWS, "micro_ap", "map", *OF_THRESHOLDS)}
    return [name for name, most in allowed.items() if line.get(name) is not None and line[name] < defaults[name] - most]


def rounded(line: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a line, with five digits."""
    return {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in line.items()}


def of_half(measure: Callable[[Summary], float], own: bool) -> Callable[[np.ndarray, np.ndarray, np.ndarray], float]:
    """The measure of scores and true rows in a half of the rows, or in the rest."""
    return lambda scores, y, half: measure(summarise(scores[half == own], np.flatnonzero(y[half == own])))


MARGINS, DIVISIONS = (0.0, 0.001, 0.002, 0.003, 0.005, 0.01), 6
HALVES = (of_half(MEASURE["map"], True), of_half(MEASURE["map"], False), of_half(MEASURE["f1"], False))


class Kept(CrossFits):
    """Also keeps the scores, each fold's rows after those of the one before."""

    kept: dict[int, np.ndarray]

    def _crossed(self, place: int, scores: np.ndarray) -> Crossed:
        self.kept[place] = scores.copy()
        return super()._crossed(place, scores)


class Scored(NamedTuple):
    """Of labels at all settings: the score (labels × settings) that tune goes by, and the scores (settings × rows) of each."""

    of_tune: np.ndarray
    of_rows: list[np.ndarray]


def loaded(path: Path, split: str) -> CompactRows:
    """The rows of a split, as training takes them."""
    with hpcml.Dataset(path) as dataset:
        shard = load_shard(mpi.self_comm(), dataset, split)
        return compact_rows(mpi.self_comm(), shard, True)[0]


def crossed(rows: CompactRows, folds: list[Fold], labels: np.ndarray, settings: list[Setting], seed: int) -> Scored:
    """The labels at all settings by tune's few sweeps; `rows` say which rows have the labels."""
    options, paths = DualOptions(loss="squared-hinge", seed=seed), []
    for fold in folds:
        there = [concrete(METHOD.axes, setting, fold.training, options) for setting in settings]
        paths.append(METHOD.fitter(METHOD, METHOD.risk(fold.training, options, Profile()), there, options, METHOD.lanes))
    work = Kept(rows, folds, paths, labels, len(settings), "map", 1e9)
    work.kept = {}
    found = np.empty((labels.size, len(settings)))
    for finished in work.solve(range(labels.size), NEVER):
        for label in finished:
            found[label.place] = label.scores
    return Scored(found, [work.kept[place] for place in range(labels.size)])


def sample(n_positive: np.ndarray, least: int, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The labels that so many rows have, and `size` of them (None: all), evenly over the order by frequency."""
    labels = np.flatnonzero(n_positive >= least)
    order = labels[np.argsort(n_positive[labels], kind="stable")]
    some = order if size is None else order[np.unique(np.linspace(0, order.size - 1, min(size, order.size)).astype(int))]
    return labels, np.sort(some)


def exact(truth: np.ndarray, scores: list[np.ndarray]) -> np.ndarray:
    """Average precision (labels × settings) of scores, scikit-learn's."""
    return np.array([[average_precision_score(y, of) for of in own] for y, own in zip(truth.T, scores, strict=True)])


def check(data: Path, given: argparse.Namespace) -> dict[str, Any]:
    """How far tune's scores are from those of solutions and of a grid search, and the seconds of the three."""
    comm, rows = mpi.self_comm(), loaded(data, "train")
    labels, some = sample(rows.n_positive, given.min_positives, given.check)
    fold = deal(rows, labels, FOLDS, given.seed)
    settings = Grid(METHOD.axes, [(), ()]).settings()
    crossed(rows, fold_rows(comm, rows, fold, FOLDS), some[:1], settings, given.seed)  # compiles
    scored, few_s = timed(comm, lambda: crossed(rows, fold_rows(comm, rows, fold, FOLDS), some, settings, given.seed))
    with hpcml.Dataset(data) as dataset:
        train = np.array(dataset.split("train"))
        X, Y = matrix(dataset.file["X"])[train], matrix(dataset.file["Y"])[train][:, some].toarray() > 0
    parts = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)]
    order = np.concatenate([held for _, held in parts])

    def solutions() -> list[np.ndarray]:
        scores = np.empty((some.size, len(settings), train.size))
        X32, y = X.astype(np.float32), np.squeeze(Y.astype(np.int8))
        for number, setting in enumerate(settings):
            for others, held in parts:
                lam, weight = setting["lam"] * rows.scale / others.size, setting["positive_weight"]
                fitted = hpcml.DualClassifier(lam=lam, positive_weight=weight).fit(X32[others], y[others])
                scores[:, number, held] = (X[held] @ fitted.coef_.T + fitted.intercept_).T
        return list(scores[:, :, order])

    def searched() -> np.ndarray:
        costs, weights = ({setting[name] for setting in settings} for name in ("lam", "positive_weight"))
        grid = {"C": [1 / (cost * rows.scale) for cost in costs], "class_weight": [{1: weight} for weight in weights]}
        found = np.empty((some.size, len(settings)))
        for label, y in enumerate(Y.T):
            machine = LinearSVC(tol=given.svc_tol, random_state=0)
            search = GridSearchCV(machine, grid, scoring="average_precision", cv=parts, refit=False).fit(X, np.where(y, 1, -1))
            results = search.cv_results_
            at = {(p["C"], p["class_weight"][1]): s for p, s in zip(results["params"], results["mean_test_score"], strict=True)}
            found[label] = [at[1 / (each["lam"] * rows.scale), each["positive_weight"]] for each in settings]
        return found

    solved, solved_s = timed(comm, solutions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that do not converge
        peer, peer_s = timed(comm, searched)
    few, best = exact(Y[order], scored.of_rows), exact(Y[order], solved)
    own, theirs, places = np.argmax(scored.of_tune, axis=1), np.argmax(peer, axis=1), np.arange(some.size)
    lost, lost_peer = best.max(axis=1) - best[places, own], peer.max(axis=1) - peer[places, own]
    line = {"data": data.stem, "labels": some.size, "settings": len(settings)}
    for name, table in (("tune", scored.of_tune), ("tune, exact", few), ("solutions", best), ("search", peer)):
        line[f"mean AP: {name}"] = [round(float(value), 4) for value in table.mean(axis=0)]
    line |= {"same_best_for_all": bool(best_of(scored.of_tune) == best_of(best)), "same_as_search": int((own == theirs).sum())}
    line |= {"same_as_solutions": int((own == np.argmax(best, axis=1)).sum()), "lost": lost.mean(), "lost_most": lost.max()}
    line |= {"lost_by_search": lost_peer.mean(), "lost_by_search_most": lost_peer.max()}
    line |= {"solutions_lost_by_search": (peer.max(axis=1) - peer[places, np.argmax(best, axis=1)]).mean()}
    line |= {"search_lost_by_solutions": (best.max(axis=1) - best[places, theirs]).mean()}
    for name, seconds in (("tune", few_s), ("solutions", solved_s), ("search", peer_s)):
        line |= {f"{name}_user_s": seconds[0], f"{name}_wall_s": seconds[1]}
    return rounded(line | {"ratio_user": few_s[0] / peer_s[0], "ratio_wall": few_s[1] / peer_s[1]})


def margins(data: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What the choice of one half of the rows is worth on the other, beside the default, by how much better it must be."""
    rows = loaded(data, "train")
    labels, some = sample(rows.n_positive, given.min_positives, given.margins)
    folds = fold_rows(mpi.self_comm(), rows, deal(rows, labels, FOLDS, given.seed), FOLDS)
    settings = Grid(METHOD.axes, [(), ()]).settings()
    default, order = default_of(settings), np.concatenate([fold.numbers for fold in folds])
    scored = crossed(rows, folds, some, settings, given.seed).of_rows
    truth = [np.isin(order, rows.rows_of(int(label))) for label in some]
    found: dict[float, list[tuple[float, ...]]] = {margin: [] for margin in MARGINS}
    for division in range(DIVISIONS):
        half = np.random.default_rng(division).random(order.size) < 0.5
        both = [place for place, y in enumerate(truth) if min(y[half].sum(), y[~half].sum()) > 1]
        ap, judged, f1 = (
            np.array([[of(scored[p][k], truth[p], half) for k in range(len(settings))] for p in both]) for of in HALVES
        )
        for margin in MARGINS:
            which, places = choose(ap, rows.n_positive[some[both]] / 2, False, default, margin=margin), np.arange(len(both))
            changes = [(table[places, which] - table[:, default]).mean() for table in (judged, f1)]
            found[margin].append((*changes, float((which != default).mean())))
    for margin, values in found.items():
        yield {"data": data.stem, "margin": margin} | dict(
            zip(("ap", "f1", "others"), map(float, np.mean(values, axis=0)), strict=True)
        )


def leak(data: Path, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What it changes that idf and words are those of all training rows, the held-out ones included."""
    comm, rows = mpi.self_comm(), loaded(data, "train")
    labels = sample(rows.n_positive, given.min_positives, None)[0]
    fold = deal(rows, labels, FOLDS, given.seed)
    with hpcml.Dataset(data) as dataset, (lzma.open if given.text.suffix == ".xz" else open)(given.text) as lines:
        documents = [json.loads(line) for line in lines]
        if len(documents) != dataset.n_rows:
            raise SystemExit(f"{given.text} has {len(documents)} documents, {data} has {dataset.n_rows} rows")
        documents = [documents[row] for row in dataset.split("train")]
    options = {"min_df": given.min_df}

    def converted(held_out: np.ndarray) -> CompactRows:
        path = folder / "rows.jsonl"
        with path.open("w", encoding="utf-8") as out:
            for document, out_of_it in zip(documents, held_out.tolist(), strict=True):
                print(json.dumps(document | {"split": "test" if out_of_it else "train"}), file=out)
        hpcml.convert("jsonl", path, folder / "rows.h5", **options, force=True)
        found = loaded(folder / "rows.h5", "all")
        assert np.array_equal(found.label_rows, rows.label_rows), "the labels of the text are not those of the data"
        return found

    leaking = converted(np.zeros(fold.size, bool))
    some = sample(leaking.n_positive, given.min_positives, given.sample)[1]
    settings = Grid(METHOD.axes, [(), ()]).settings()
    with_leak = crossed(leaking, fold_rows(comm, leaking, fold, FOLDS), some, settings, given.seed).of_tune
    clean = [fold_rows(comm, converted(fold == k), fold, FOLDS)[k] for k in range(FOLDS)]
    without = crossed(leaking, clean, some, settings, given.seed).of_tune
    chosen, cleanly = (choose(scores, leaking.n_positive[some], False) for scores in (with_leak, without))
    line = {"data": data.stem, "labels": some.size, "features": leaking.n_features}
    for name, scores in (("idf of all", with_leak), ("idf of the others", without)):
        line[f"mean AP: {name}"] = [round(float(value), 4) for value in scores.mean(axis=0)]
    line |= {"best_for_all": settings[best_of(with_leak)], "best_for_all_without": settings[best_of(without)]}
    with hpcml.Dataset(folder / "rows.h5") as dataset:
        names = [dataset.label_names()[label] for label in some]
    tests = [judged(data, names, [settings[number] for number in which], rows.scale) for which in (chosen, cleanly)]
    return rounded(line | {"other_choice": int((chosen != cleanly).sum()), "test AP": tests[0], "test AP without": tests[1]})


def judged(data: Path, names: list[str], chosen: list[Setting], scale: float) -> float:
    """Mean average precision on the test rows of labels that are trained each at its own setting."""
    with hpcml.Dataset(data) as dataset:
        known = {name: number for number, name in enumerate(dataset.label_names())}
        X, Y = matrix(dataset.file["X"]).astype(np.float32), matrix(dataset.file["Y"])[:, [known[name] for name in names]]
        train, test = np.array(dataset.split("train")), np.array(dataset.split("test"))
    found = []
    for setting in {tuple(each.items()) for each in chosen}:
        mine = [label for label, each in enumerate(chosen) if tuple(each.items()) == setting]
        lam, weight = dict(setting)["lam"] * scale / train.size, dict(setting)["positive_weight"]
        y = Y[train][:, mine].toarray().astype(np.int8)
        fitted = hpcml.DualClassifier(lam=lam, positive_weight=weight).fit(X[train], y if len(mine) > 1 else y.ravel())
        scores, truth = X[test] @ fitted.coef_.T, Y[test][:, mine].toarray() > 0
        found += [average_precision_score(y, z) for y, z in zip(truth.T, scores.T, strict=True) if y.any()]
    return float(np.mean(found))


def main() -> None:
    """Run the part that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--min-positives", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", type=int, metavar="N", help="compare with solutions and a grid search, on so many labels")
    parser.add_argument("--margins", type=int, metavar="N", help="by how much a setting must be better, on so many labels")
    parser.add_argument("--svc-tol", type=float, default=1e-4, help="the tolerance of LinearSVC. Default: its own")
    parser.add_argument("--text", type=Path, help="measure the leak of idf; the JSON lines that the data were made of")
    parser.add_argument("--min-df", type=int, default=1, help="what they were converted with")
    parser.add_argument("--sample", type=int, help="measure it on so many labels. Default: all")
    given = parser.parse_args()
    comm = mpi.start()
    if (given.check or given.margins or given.text) and comm.size > 1:
        parser.error("--check, --margins and --text run on one rank")
    with tempfile.TemporaryDirectory() as own:
        folder = Path(comm.bcast(own))
        for data in given.data:
            if given.check:
                lines = iter([check(data, given)])
            elif given.margins:
                lines = margins(data, given)
            else:
                lines = iter([leak(data, given, folder)]) if given.text else worth(comm, data, given, folder)
            for line in lines:
                if comm.rank == 0:
                    print(json.dumps(line, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
