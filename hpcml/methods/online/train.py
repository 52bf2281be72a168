"""Training single-pass learners into a run folder: `hpcml train mbw` and the others."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import Dataset
from hpcml.data.labels import tell_unused
from hpcml.data.svmlight import BINARY
from hpcml.data.svmlight_stream import SvmlightStream, is_text
from hpcml.errors import ConfigError, HpcmlError, Interrupted, nearest
from hpcml.files.lines import line_limit
from hpcml.log import Log, joined
from hpcml.methods.online.learners import METHODS, USES
from hpcml.methods.online.options import OnlineOptions
from hpcml.methods.online.run import Run
from hpcml.methods.online.saved import Initial, write_model
from hpcml.methods.online.source import DatasetSource, Source, TextSource, labels_of
from hpcml.methods.online.state import State
from hpcml.model.linear import Model
from hpcml.options import check_used
from hpcml.run.folder import FINISHED, RunFolder, as_dict, config_before
from hpcml.signals import StopSignals


@dataclass(frozen=True)
class OnlineReport:
    """What a finished pass did."""

    model: Path
    n_rows: int
    n_labels: int
    n_features: int  # that the model has
    error: float  # progressive: the share of wrong predictions, each made before its row was learnt from
    updates: float  # share of the pairs of a row and a label that changed a model
    seconds: float
    profile: dict[str, float] = field(default_factory=dict)
    warning: str = ""  # that the rows come in blocks of one label

    def __str__(self) -> str:
        lines = [
            f"learnt {self.n_labels} labels from {self.n_rows:,} rows in {self.seconds:.3g} s: progressive error "
            f"{100 * self.error:.3f} %, {100 * self.updates:.1f} % of the rows changed a model; {self.n_features:,} features; "
            f"model: {self.model}"
        ]
        if self.warning:
            lines.append(self.warning)
        if self.profile:
            lines.append("rank 0: " + ", ".join(f"{phase} {value:.2f} s" for phase, value in self.profile.items()))
        return joined(lines)


def train_online(
    method: str,
    comm: mpi.Comm | None,
    data: Path | str,
    output: Path,
    options: OnlineOptions,
    force: bool = False,
    resume: bool = False,
    log: Log | None = None,
    signals: StopSignals | None = None,
) -> OnlineReport:
    """Collective over `comm`. One pass of a learner of METHODS, for each label against the rest, into the run folder `output`.

    `data` is a dataset, or svmlight text: a file or "-" for standard input (rank 0's). The labels are divided over the ranks; every
    rank sees all rows. A bias that is not given is that of the run or model which is continued, else there is one. Raises
    ConfigError, DataError or NonFiniteError for what the user can mend, Interrupted after a signal or the time limit.
    """
    if method not in METHODS:
        raise ConfigError(f"no method {method!r}; {nearest(method, METHODS)}")
    options.validate()
    if str(output) == "-":
        raise ConfigError("--output -: expected a folder for the run")
    if options.live_features and not METHODS[method].balanced:
        balanced = ", ".join(name for name in METHODS if METHODS[name].balanced)
        raise ConfigError(f"--live-features: {method} has no positive and negative weights to compare; use {balanced}")
    if options.bias is False and METHODS[method].winnow:
        additive = ", ".join(name for name in METHODS if not METHODS[name].winnow)
        raise ConfigError(f"--no-bias: {method} is a Winnow, which always has an intercept; leave it out, or use {additive}")
    with mpi.duplicated(comm) as comm, ExitStack() as stack:
        initial, before = None, config_before(comm, Path(output), resume)
        if not before:  # a run goes on with the options that it was begun with
            check_used(options, [method], USES)
            options.check_effects()
        if options.bias is None and isinstance(before.get("bias"), bool):
            options = replace(options, bias=before["bias"])
        with mpi.agreed(comm, f"opening {options.initial_model}"):
            if options.initial_model is not None:
                if Path(output, "model.h5").exists() and Path(output, "model.h5").samefile(options.initial_model):
                    raise ConfigError(f"--initial-model {options.initial_model} is the model of --output; choose another --output")
                initial = Initial(options.initial_model, method, options)
                options = initial.options
        if options.bias is None and not METHODS[method].winnow:  # to a Winnow the option means nothing
            options = replace(options, bias=True)
        source = _open(comm, Path(data), options, initial, stack)
        if options.max_line_mb is not None and isinstance(source, DatasetSource) and not before:
            raise ConfigError(f"--max-line-mb has no effect on a dataset ({source.name}), it is for svmlight text; leave it out")
        if options.zero_based and not source.zero_based and not before:
            raise ConfigError(f"--zero-based has no effect on a dataset ({source.name}), it is for svmlight text; leave it out")
        seen = stack.enter_context(signals or StopSignals())
        log = log or Log(comm.rank)
        if isinstance(source, DatasetSource):
            tell_unused(comm, source.dataset, source.split, log)
        folder = stack.enter_context(RunFolder(comm, Path(output), log))
        mine = labels_of(source.names, comm.rank, comm.size)
        with mpi.agreed(comm, "making room for the weights"):
            state = State(options, method, source.n_labels, source.n_features, source.labels[mine])
            if initial is not None:
                initial.restore(source, state, mine)
        return _train(Run(comm, source, folder, state, mine, options), method, force, resume, seen)


@mpi.collective
def _open(comm: mpi.Comm, data: Path, options: OnlineOptions, initial: Initial | None, stack: ExitStack) -> Source:
    """Collective over `comm`. The rows to learn from; `stack` closes the file. Raises ConfigError, DataError."""
    if initial is not None:
        if options.label and sorted(set(options.label)) != sorted(initial.names):
            raise ConfigError(
                f"--initial-model {initial.path}: it has other labels ({', '.join(initial.names[:5])} …); leave --label out"
            )
        if not options.label:  # the rows of a text are ±1 if they were so then
            options = replace(options, label=() if initial.names == BINARY else tuple(initial.names), min_positives=0)
    text = False
    with mpi.agreed(comm, f"opening {data}"):
        if comm.rank == 0:
            text = is_text(data)
    if comm.bcast(text):
        if initial is not None:
            initial.model.check_numbering(options.zero_based)
        max_line = line_limit(options.max_line_mb)
        source = TextSource(comm, stack.enter_context(SvmlightStream(comm, data, options.zero_based, max_line)), str(data), options)
        source.initial = (initial.model.vocabulary, initial.model.n_features) if initial is not None else None
        return source
    with mpi.agreed(comm, f"opening {data}"):
        dataset = Dataset(data)
    return DatasetSource(comm, stack.enter_context(dataset), options)


@mpi.collective
def _train(run: Run, method: str, force: bool, resume: bool, signals: StopSignals) -> OnlineReport:
    """Collective. See `train_online`."""
    comm, folder, source = run.comm, run.folder, run.source
    config = {"method": method, "data": source.path, **as_dict(run.options)}
    if folder.prepare(config, force, resume) == FINISHED:
        folder.log(f"{folder.path} is finished already; nothing to resume")
        return _report(run)
    try:
        stopped = run.learn(resume, signals)
        if not stopped:
            with run.profile("write"):
                error, updates = run.totals()
                run.write_history()
                write_model(
                    comm, folder, method, source, run.state, run.mine, {"progressive_error": error, "update_share": updates}
                )
    except HpcmlError:  # agreed, so all ranks are here
        if comm.rank == 0 and not resume and not run.snapshots.written:  # nothing to go on with, so it leaves nothing behind
            folder.discard()
        raise
    if stopped:
        raise Interrupted(f"{stopped}: checkpoint written; continue with --resume ({run.state.n_rows:,} rows done)")
    return replace(_report(run), warning=run.order.note(comm, source.names, is_stream=source.n_rows is None))


@mpi.collective
def _report(run: Run) -> OnlineReport:
    """Collective. What the model says of itself."""
    told = None
    with mpi.agreed(run.comm, f"reading {run.folder.model}"):
        if run.comm.rank == 0:
            model = Model(run.folder.model)
            shares = (float(model.attrs[name]) for name in ("progressive_error", "update_share"))
            told = int(model.attrs["n_rows"]), model.n_labels, int(np.count_nonzero(model.factors)), *shares
    profile = run.profile.seconds if run.options.profile else {}
    return OnlineReport(run.folder.model, *run.comm.bcast(told), run.elapsed, profile)
