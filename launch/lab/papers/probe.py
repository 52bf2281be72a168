"""PROBE (Smith, Kim & Wilbur 2012): convex minimisation, compared with Pegasos and SVMperf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import hpcml
from launch.lab.core.exhibit import Finding, Numbers, claim, ending, means
from launch.lab.core.study import PaperStudy, flags
from launch.lab.papers import mesh

METHODS = {"probe": "PROBE", "pegasos": "Pegasos", "svmperf": "SVMperf"}
LARGE = {"probe": "PROBE", "svmperf": "SVMperf", "liblinear": "LIBLINEAR"}
TEN_LARGEST = ("earn", "acq", "money-fx", "grain", "crude", "trade", "interest", "wheat", "ship", "corn")
LABELS: dict[str, Sequence[str]] = {"Reuters": TEN_LARGEST}  # of corpora of which the paper takes some
AVERAGE = "MeSH average"


def table_1(study: PaperStudy) -> Finding:
    numbers = {}
    for rows in study.datasets():
        with hpcml.Dataset(rows.train) as data:
            n_labels = len(LABELS.get(rows.name, ())) or (len(mesh.RARE) if rows.name == "MeSH" else data.n_labels)
            splits = {what: float(data.split(name).size) for what, name in (("training", "train"), ("testing", "test"))}
            row = {"subproblems": float(n_labels), "examples": float(data.n_rows), "features": float(data.n_features)}
        numbers[rows.name] = row | splits
    return Finding(numbers)


def table_2(study: PaperStudy) -> Finding:
    _, counts, names = mesh.headings(study)
    results = {name: counts.rows.get(name, 0) for name in (*mesh.RARE, *mesh.FREQUENT)}
    numbers = {name: {"number": float(n), "percent": 100 * n / counts.n_rows} for name, n in results.items()}
    return Finding(numbers, (f"headings of tables 4 and 6: {'; '.join(names)}",))


def table_3(study: PaperStudy) -> Finding:
    """MAP, break-even and iterations of three methods on every corpus, and their means."""
    numbers: dict[str, dict[str, float]] = {}
    for rows in study.datasets():  # without an intercept, as in the paper
        folder, labels = study.folder / f"{rows.train.stem}-runs", flags("--label", LABELS.get(rows.name, ()))
        mesh.train_methods(study, rows, folder, METHODS, "--no-bias", *labels)
        for method, name in METHODS.items():
            numbers[f"{rows.name}, {name}"] = mesh.means_of(study, rows, folder / method, "MAP", "BE", "iterations")
    for method in METHODS.values():
        numbers[f"Average, {method}"] = means(ending(numbers, method))
    return Finding(numbers)


NOT_INFERIOR = 0.005  # of MAP and break-even, on average


@claim("table-3", f"PROBE's mean MAP and BE are at most {NOT_INFERIOR} below those of Pegasos and SVMperf")
def _not_inferior(numbers: Numbers) -> bool:
    ours, others = numbers["Average, PROBE"], (numbers["Average, Pegasos"], numbers["Average, SVMperf"])
    return all(ours[measure] >= other[measure] - NOT_INFERIOR for other in others for measure in ("MAP", "BE"))


@claim("table-3", "PROBE takes no more iterations than Pegasos on average")
def _no_more_iterations(numbers: Numbers) -> bool:
    return numbers["Average, PROBE"]["iterations"] <= numbers["Average, Pegasos"]["iterations"]


def with_average(results: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {name: dict(row) for name, row in results.items()} | {AVERAGE: means(results.values())}


def table_4(study: PaperStudy) -> Finding:
    results = mesh.compare_methods(study, METHODS, "--no-bias")
    names = list(results["PROBE"])
    rows = {name: {f"{method} {what}": v for method, lines in results.items() for what, v in lines[name].items()} for name in names}
    others = mesh.compare_methods(study, {method: name for method, name in METHODS.items() if method != "pegasos"})
    with_one = ", ".join(f"{name} {means(lines.values())['MAP']:.3f}" for name, lines in others.items())
    return Finding(with_average(rows), (f"Pegasos has an intercept, as in the paper; mean MAP of the others with one: {with_one}",))


@claim("table-4", "PROBE has the best average: no higher mean MAP or BE of Pegasos or SVMperf")
def _best_average(numbers: Numbers) -> bool:
    row = numbers[AVERAGE]
    return all(
        row[f"PROBE {measure}"] >= row[f"{other} {measure}"] for other in ("Pegasos", "SVMperf") for measure in ("MAP", "BE")
    )


def _of_headings(numbers: Numbers) -> list[Mapping[str, float]]:
    return ending(numbers, AVERAGE, otherwise=True)


@claim("table-4", "No algorithm is superior on all headings: none has the highest or an equal BE on every heading")
def _none_always_best(numbers: Numbers) -> bool:
    rows = _of_headings(numbers)
    return not any(all(row[f"{m} BE"] == max(row[f"{o} BE"] for o in METHODS.values()) for row in rows) for m in METHODS.values())


@claim("table-4", "PROBE takes no more iterations than Pegasos, and Pegasos no more than SVMperf, on average")
def _fewest_iterations(numbers: Numbers) -> bool:
    row = numbers[AVERAGE]
    return row["PROBE iterations"] <= row["Pegasos iterations"] <= row["SVMperf iterations"]


def table_5(study: PaperStudy) -> Finding:
    """Measures and cost for one heading at a time, with shares near those of the paper."""
    rows, counts, _ = mesh.headings(study)
    numbers: dict[str, dict[str, float]] = {}
    notes = []
    for share, name in list(mesh.choose_frequent(counts).items())[: 1 if study.quick else None]:
        folder = study.folder / f"share-{share:g}"
        mesh.train_methods(study, rows, folder, LARGE, "--no-bias", "--lambda", mesh.LAMBDA, "--label", name)
        for method, title in LARGE.items():
            numbers[f"{share:g} %, {title}"] = mesh.means_of(study, rows, folder / method, "BE", "iterations", "seconds")
        notes.append(f"{share:g} %: {name}, {counts.rows[name]:,} of {counts.n_rows:,} rows")
    for method in LARGE.values():
        numbers[f"Average, {method}"] = means(ending(numbers, method))
    return Finding(numbers, tuple(notes))


NEAR = 0.02


@claim("table-5", f"PROBE's mean BE is close to that of SVMperf: at most {NEAR} apart")
def _as_good_as_svmperf(numbers: Numbers) -> bool:
    return abs(numbers["Average, PROBE"]["BE"] - numbers["Average, SVMperf"]["BE"]) <= NEAR


@claim("table-5", "PROBE's mean BE is higher than LIBLINEAR's")
def _better_than_liblinear(numbers: Numbers) -> bool:
    return numbers["Average, PROBE"]["BE"] > numbers["Average, LIBLINEAR"]["BE"]


@claim(
    "table-5",
    "The time of SVMperf relative to PROBE grows with the positive rows: larger for each of the three most frequent headings than "
    "for the rarest",
)
def _svmperf_slows_with_positives(numbers: Numbers) -> bool:
    ratios = {
        share: numbers[f"{share:g} %, SVMperf"]["seconds"] / numbers[f"{share:g} %, PROBE"]["seconds"] for share in mesh.SHARES
    }
    return min(ratios[share] for share in mesh.SHARES[:3]) > ratios[mesh.SHARES[-1]]


@claim("table-5", "PROBE needs the least memory on average")
def _least_memory(numbers: Numbers) -> bool:
    return all(numbers["Average, PROBE"]["GB"] < numbers[f"Average, {other}"]["GB"] for other in ("SVMperf", "LIBLINEAR"))


LOSSES = {"hinge": "PROBE (SVM)", "huber": "PROBE (Huber)", "logistic": "PROBE (MaxEnt)"}


def table_6(study: PaperStudy) -> Finding:
    rows, _, headings = mesh.headings(study)
    runs = {name: study.folder / loss for loss, name in LOSSES.items()} | {"SVMperf": study.folder / "svmperf"}
    shared = ("--no-bias", "--lambda", mesh.LAMBDA, *flags("--label", headings))
    for loss, name in LOSSES.items():
        study.run("train", "probe", rows.train, "-o", runs[name], "--loss", loss, *shared)
    study.run("train", "svmperf", rows.train, "-o", runs["SVMperf"], *mesh.EXACT, *shared)
    results = {name: mesh.measure_labels(study, run, rows) for name, run in runs.items()}
    return Finding(with_average({label: {name: results[name][label]["BE"] for name in runs} for label in results["SVMperf"]}))


@claim("table-6", f"Huber's loss gives the same BE as the hinge loss: the means differ by at most {NEAR} apart")
def _huber_is_as_good(numbers: Numbers) -> bool:
    return abs(numbers[AVERAGE]["PROBE (Huber)"] - numbers[AVERAGE]["PROBE (SVM)"]) <= NEAR


@claim("table-6", "Maximum entropy is consistently inferior: a lower BE than the hinge loss for nine of ten headings")
def _maxent_is_worse(numbers: Numbers) -> bool:
    rows = _of_headings(numbers)
    worse = sum(row["PROBE (MaxEnt)"] < row["PROBE (SVM)"] for row in rows)
    return worse >= 0.9 * len(rows)
