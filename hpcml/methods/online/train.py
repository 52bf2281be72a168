"""Training single-pass learners into a run folder: `hpcml train mbw` and the others."""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.labels import warn_about_unused_rows
from hpcml.data.leaks import warn_about_class_leaks
from hpcml.data.svmlight import BINARY, SvmlightStream, is_text
from hpcml.errors import HpcmlError, OptionError
from hpcml.files.lines import line_limit
from hpcml.log import joined, plural
from hpcml.methods.method import Method
from hpcml.methods.online.kernels import FALSE_NEGATIVES, FALSE_POSITIVES, UPDATES
from hpcml.methods.online.options import OnlineOptions, with_bias
from hpcml.methods.online.order import AVERAGE, AVERAGES, bound_warning
from hpcml.methods.online.run import Pass
from hpcml.methods.online.saved import InitialModel, write_model
from hpcml.methods.online.source import DatasetSource, TextSource, local_labels
from hpcml.methods.online.state import LearnerState
from hpcml.model.linear import Model
from hpcml.model.open import model_file
from hpcml.run.folder import FINISHED, RunConfig, RunFolder
from hpcml.run.session import Session, Target


@dataclass(frozen=True)
class OnlineReport:
    model: Path
    n_rows: int
    n_labels: int
    n_features: int  # in the model
    error: float  # progressive: share of wrong predictions, each made before its row was learnt from
    updates: float  # share of the row-label pairs that changed a model
    seconds: float
    profile: dict[str, float] = field(default_factory=dict)
    warning: str = ""  # about the row order
    bound_warning: str = ""  # about weights at the lower bound

    def __str__(self) -> str:
        lines = [
            f"trained {plural(self.n_labels, 'label')} on {plural(self.n_rows, 'row')} in {self.seconds:.3g} s: progressive error "
            f"{100 * self.error:.3f} %, updates in {100 * self.updates:.1f} % of the row-label pairs; "
            f"{plural(self.n_features, 'feature')}; model: {self.model}"
        ]
        lines += [warning for warning in (self.warning, self.bound_warning) if warning]
        if self.profile:
            lines.append("rank 0: " + ", ".join(f"{phase} {value:.2f} s" for phase, value in self.profile.items()))
        return joined(lines)


def train(method: Method, session: Session, data: Path, target: Target, options: OnlineOptions) -> OnlineReport:
    """Train one learner per label in a single pass; `data` is a dataset, svmlight text, or "-" for standard input of rank 0.

    Raises ConfigError, DataError, NonFiniteError; Interrupted after a signal or the time limit. Collective over the session.
    """
    options.validate()
    comm, log, output, data = session.comm, session.log, target.output, Path(data)
    if str(output) == "-":
        raise OptionError("output", "-", "expected a folder for the run")
    with ExitStack() as stack:
        with mpi.agreed(comm, f"opening {options.initial_model}"):
            initial, path = None, options.initial_model
            if path is not None:
                ours = Path(output, "model.h5")
                if ours.exists() and ours.samefile(model_file(path)):
                    raise OptionError("initial_model", path, "is the model of --output; choose another --output")
                initial = InitialModel(path, method.name, options)
        options = with_bias(options if initial is None else initial.options, method.name)
        source_options = options
        if initial is not None and options.label and sorted(set(options.label)) != sorted(initial.names):
            raise initial.label_error("remove --label")
        if initial is not None and not options.label:  # a text stream stays binary if it was
            labels = () if initial.names == BINARY else tuple(initial.names)
            source_options = replace(options, label=labels, min_positives=0)
        with mpi.agreed(comm, f"opening {data}"):
            text = comm.rank == 0 and is_text(data)
        source: DatasetSource | TextSource
        if comm.bcast(text):
            if initial is not None:
                initial.model.check_numbering(options.zero_based)
            stream = SvmlightStream(comm, data, options.zero_based, line_limit(options.max_line_mb))
            source = TextSource(comm, stack.enter_context(stream), str(data), source_options)
        else:
            source = DatasetSource(comm, stack.enter_context(method.open_data(comm, data)), source_options)
            for name, is_given in (("max_line_mb", options.max_line_mb is not None), ("zero_based", options.zero_based)):
                if is_given:
                    why = f"has no effect on a dataset ({source.name}), only on svmlight text; remove it"
                    raise OptionError(name, getattr(options, name), why)
            warn_about_unused_rows(comm, source.dataset, source.split, log)
            warn_about_class_leaks(comm, source.dataset, source.split, source.names, log)
        folder = stack.enter_context(RunFolder(comm, output, log))
        local = local_labels(source.names, comm.rank, comm.size)
        with mpi.agreed(comm, "allocating the weights"):
            state = LearnerState(options, method.name, source.n_labels, source.n_features, source.labels[local])
            if initial is not None:
                initial.restore(source, state, local)
        run = Pass(source, folder, state, local)
        if folder.prepare(RunConfig(method.name, source.path, options), target) == FINISHED:
            return _report(run)
        run.learn(target.resume, session.signals)
        seconds = run.driver.seconds
        try:
            with run.profile("write"):
                counters = mpi.allreduce_sum(comm, state.counters.sum(axis=1))
                pairs = max(1, state.n_rows * len(source.names))
                wrong = float(counters[FALSE_POSITIVES] + counters[FALSE_NEGATIVES])
                about = {"progressive_error": wrong / pairs, "update_share": float(counters[UPDATES]) / pairs}
                run.write_history()
                write_model(folder, method.name, source, state, local, about)
        except HpcmlError:
            if not run.has_checkpoint:
                run.discard()
            raise
        warning, at_bound = run.order.block_warning(comm, source.names), bound_warning(comm, source.names, state)
        if warning:
            advice = "shuffle the lines first, for instance with shuf" if source.n_rows is None else "use --shuffle"
            warning = f"warning: {warning}, and the progressive error does not hold for other rows; {advice}"
        if at_bound:
            again = f"{AVERAGE}; with corrected labels, start a new run without --initial-model"
            at_bound = f"warning: {at_bound}; {again if options.voted else f'--voted {AVERAGES}'}"
        return _report(run, seconds, warning, at_bound)


def _report(run: Pass, seconds: float = 0.0, warning: str = "", at_bound: str = "") -> OnlineReport:
    def read() -> tuple[int, int, int, float, float]:
        model = Model(run.folder.model)
        error, updates = (float(model.attrs[name]) for name in ("progressive_error", "update_share"))
        return int(model.attrs["n_rows"]), model.n_labels, int(np.count_nonzero(model.factors)), error, updates

    facts = mpi.run_on_root(run.comm, f"reading {run.folder.model}", read)
    profile = run.profile.read() if run.options.profile else {}
    return OnlineReport(run.folder.model, *facts, seconds, profile, warning, at_bound)
