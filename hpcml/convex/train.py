"""Training PROBE for many labels: `hpcml train probe`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.config import TrainOptions
from hpcml.convex.block import ProbeBlock
from hpcml.convex.objective import BlockObjective, block_size
from hpcml.data.schema import Dataset, default_split, stamp, write_strings
from hpcml.data.shard import Shard, load_shard
from hpcml.data.slabs import Slab, SlabFile, sync, temporary_path
from hpcml.errors import ConfigError, DataError, Interrupted
from hpcml.kernels import fused
from hpcml.log import Log, Progress
from hpcml.model import STATUS, Model, model_slabs
from hpcml.runfolder import FINISHED, UNFINISHED, RunFolder, as_dict
from hpcml.signals import StopSignals


@dataclass(frozen=True)
class TrainReport:
    """What a finished training run did."""

    model: Path
    n_rows: int
    n_features: int
    n_labels: int
    mean_steps: float  # over the labels that were trained
    degenerate: list[str]
    step_limit: list[str]
    seconds: float
    lam: float

    def __str__(self) -> str:
        lines = [
            f"trained {self.n_labels} labels in {self.seconds:.1f} s, {self.mean_steps:.1f} iterations a label; model: {self.model}"
        ]
        for what, names in (
            ("no positive or no negative row, got a constant model", self.degenerate),
            ("hit --max-steps", self.step_limit),
        ):
            if names:
                lines.append(f"{len(names)} labels {what}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}")
        return "\n".join(lines)


def train_probe(
    comm: mpi.Comm | None,
    data: Path,
    output: Path,
    options: TrainOptions,
    force: bool = False,
    resume: bool = False,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> TrainReport:
    """Collective over `comm`. Train one PROBE model per label of `data` into the run folder `output` (SPEC: PROBE, Algorithm 1).

    Raises ConfigError, DataError or NonFiniteError for what the user can mend, Interrupted after a signal or the time limit.
    """
    options.validate()
    with mpi.duplicated(comm) as comm:
        log = log or Log(comm.rank)
        with mpi.agreed(comm, f"opening {data}"):
            dataset = Dataset(data)
        with dataset, signals or StopSignals() as seen:
            return _train(comm, dataset, output, options, force, resume, log, seen)


def _train(
    comm: mpi.Comm,
    dataset: Dataset,
    output: Path,
    options: TrainOptions,
    force: bool,
    resume: bool,
    log: Log,
    signals: StopSignals,
) -> TrainReport:
    """Collective over `comm`. Set up the problem, then the folder (untouched before the options fit the data), then train."""
    begin = time.monotonic()
    split = options.split or default_split(dataset, "train")
    shard = load_shard(comm, dataset, split)
    n_positive = count_positives(comm, shard)
    labels, names = choose_labels(dataset, options, n_positive)
    n_lanes = options.block or block_size(shard.n_features, len(labels))
    objective = BlockObjective(comm, shard, options.loss, options.lam, options.bias, min(n_lanes, len(labels)))

    folder = RunFolder(comm, Path(output), log)
    config = {"method": "probe", "data": str(dataset.path.resolve()), **as_dict(options)}
    state = folder.prepare(config, force, resume)
    if state == FINISHED:
        log(f"{folder.path} is finished already; nothing to resume")
        return report(comm, folder, shard, objective, time.monotonic() - begin)
    origin = {"vocabulary": dataset.vocabulary, "n_rows": shard.n_global, "fingerprint": objective.fingerprint()}

    def describe(file: h5py.File) -> None:
        stamp(file, "model")
        file.attrs.update(
            {"method": "probe", "loss": options.loss, "lambda": objective.lam, "split": split, "epsilon": options.epsilon}
        )
        file.attrs.update(origin)
        write_strings(file, "label_names", names)

    model = SlabFile(comm, folder.model_part, folder.model_part)
    if state == UNFINISHED:
        with mpi.agreed(comm, f"reading {folder.model_part}"):
            offsets = model_offsets(folder.model_part, origin, len(labels), shard.n_features)
        model.attach(offsets)
    else:
        with folder.discarded_on_error(), temporary_path(comm, folder.model_part, overwrite=True) as model.path:
            model.layout(model_slabs(len(labels), shard.n_features), describe)
    if comm.rank == 0:
        log(
            f"training {len(labels)} labels on {shard.n_global:,} rows × {shard.n_features:,} features; ranks: {comm.size}, "
            f"labels that share a pass: {objective.slots.size}, λ = {objective.lam:.4g}"
        )
    block = ProbeBlock(comm, objective, options, labels, names, n_positive[labels], model, folder)
    progress = Progress(log, "labels", len(labels))
    try:
        with mpi.node_first(comm):
            block.warm_up()
        if state == UNFINISHED:
            block.restore()
        stopped = block.run(signals, progress)
    finally:
        progress.close()
        model.close()
    if stopped:
        raise Interrupted(f"{stopped}: checkpoint written; continue with --resume ({block.n_done} of {len(labels)} labels done)")
    finish(comm, folder)
    return report(comm, folder, shard, objective, block.elapsed)


@mpi.collective
def count_positives(comm: mpi.Comm, shard: Shard) -> np.ndarray:
    """Collective over `comm`. How many rows of the split have each label (n_labels, int64)."""
    counts = np.zeros(shard.n_labels, dtype=np.int64)
    fused.count_labels(shard.y_indptr, shard.y_indices, shard.rows, counts)
    return mpi.allreduce_sum(comm, counts)


def choose_labels(dataset: Dataset, options: TrainOptions, n_positive: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """The numbers and names of the labels to train, in the file's order.

    Raises ConfigError if a named label does not exist or no label is left.
    """
    names = dataset.label_names()
    unknown = [name for name in options.label if name not in set(names)]
    if unknown:
        import difflib

        near = difflib.get_close_matches(unknown[0], names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; `hpcml info` lists the labels"
        raise ConfigError(f"{dataset.path}: no label {unknown[0]!r}{hint}")
    wanted = set(options.label or names)
    chosen = [k for k, name in enumerate(names) if name in wanted and n_positive[k] >= options.min_positives]
    if not chosen:
        raise ConfigError(f"{dataset.path}: no label has {options.min_positives} positive rows; lower --min-positives")
    return np.array(chosen, dtype=np.int64), [names[k] for k in chosen]


def model_offsets(path: Path, origin: dict[str, object], n_labels: int, n_features: int) -> dict[str, tuple[int, Slab]]:
    """Where the slabs of an unfinished model lie, for `SlabFile.attach`.

    Raises DataError if the file is damaged or belongs to other data than `origin` tells.
    """
    slabs = model_slabs(n_labels, n_features)
    try:
        with h5py.File(path, "r", locking=False) as file:
            found = {key: file.attrs[key] for key in origin} | {"shape": file["W"].shape}
            offsets = {name: (file[name].id.get_offset() or 0, slab) for name, slab in slabs.items()}
    except (OSError, KeyError):
        raise DataError(f"{path}: the unfinished model is damaged; start again with --force") from None
    for key, value in {**origin, "shape": slabs["W"].shape}.items():
        if found[key] != value:
            raise DataError(f"this run was started on other data ({key} {found[key]}, not {value}); resume with the same file")
    return offsets


@mpi.collective
def finish(comm: mpi.Comm, folder: RunFolder) -> None:
    """Collective over `comm`. Give the complete model its name and drop the checkpoints."""
    with mpi.agreed(comm, f"finishing {folder.model}"):
        if comm.rank == 0:
            sync(folder.model_part)
            folder.model_part.replace(folder.model)
            sync(folder.path)
            folder.drop_checkpoints()


@mpi.collective
def report(comm: mpi.Comm, folder: RunFolder, shard: Shard, objective: BlockObjective, seconds: float) -> TrainReport:
    """Collective over `comm`. Read what the finished model says of its labels."""
    with mpi.agreed(comm, f"reading {folder.model}"):
        model = Model(folder.model)
    status, steps = model.labels["status"], model.labels["steps"]
    named = {text: [model.label_names[k] for k in np.flatnonzero(status == code)] for code, text in enumerate(STATUS)}
    trained = steps[status != STATUS.index("degenerate")]
    return TrainReport(
        model=folder.model,
        n_rows=shard.n_global,
        n_features=shard.n_features,
        n_labels=model.n_labels,
        mean_steps=float(trained.mean()) if trained.size else 0.0,
        degenerate=named["degenerate"],
        step_limit=named["step limit"],
        seconds=seconds,
        lam=objective.lam,
    )
