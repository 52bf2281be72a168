"""`hpcml serve`: opening a model and its words once, and answering until a signal comes."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.log import Log, plural
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model
from hpcml.model.open import share_model
from hpcml.reporting.facts import data_of
from hpcml.serving.app import PROJECT, App, RequestLimits
from hpcml.serving.server import Server, check_package, listen, write_line
from hpcml.serving.suggest import Suggester
from hpcml.signals import StopSignals

LOOK_SECONDS = 0.1  # between looks at whether a signal has come


def about_of(run: Path, model: Model | ClassifierModel, suggester: Suggester) -> dict[str, Any]:
    """The description of the model: as Annif speaks of a project, and what the page shows."""
    name = run.parent.name if run.name == "model.h5" else run.name
    changed = datetime.fromtimestamp(model.path.stat().st_mtime, UTC)
    return {
        "project_id": PROJECT,
        "name": name,
        "language": "",
        "backend": {"backend_id": "hpcml"},
        "is_trained": True,
        "modification_time": changed.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "method": str(model.attrs.get("method", "")),
        "labels": model.n_labels,
        "features": model.n_features,
        "probabilities": model.probability_source,
        "thresholds": model.threshold_source or "0 for all labels",
        "fields": [field.name for field in suggester.fields],
        "words": suggester.features is not None,
    }


def open_suggester(comm: mpi.Comm, run: Path, data: Path | None) -> tuple[Suggester, dict[str, Any]]:
    """The suggester of headings, and its description. Raises ConfigError, DataError. One rank."""
    model = share_model(comm, run)
    model.check_probabilities()
    with mpi.agreed(comm, f"opening the data of {run}"), DataFile(data_of(run, data)) as dataset:
        suggester = Suggester(comm, model, dataset)
        return suggester, about_of(run, model, suggester)


def serve(
    comm: mpi.Comm, run: Path, data: Path | None, host: str, port: int, limits: RequestLimits, signals: StopSignals, log: Log
) -> None:
    """Answer requests until a signal comes. Raises ConfigError for more than one rank, a model
    without probabilities, or an address that is taken; DataError if run and data do not fit.
    """
    if comm.size > 1:
        raise ConfigError(f"serve answers from one process, but MPI has started {comm.size}; run it without mpirun")
    check_package()
    listening = listen(host, port)
    with listening:
        begin = time.monotonic()
        suggester, about = open_suggester(comm, run, data)
        app = App(suggester, about, limits, write_line)
        log(f"{run}: {plural(suggester.model.n_labels, 'label')}, probabilities {suggester.model.probability_source}")
        with Server(app, listening) as server:
            log(f"ready after {time.monotonic() - begin:.1f} s: {server.url} (Annif: {server.url}v1/projects/{PROJECT}/suggest)")
            while server.lives and not signals.seen:
                time.sleep(LOOK_SECONDS)
            if not server.lives:
                raise RuntimeError("the server has ended by itself")
            log("ending: requests that are being answered have a moment")
