"""Short functions for training and merging. `comm` None is this process alone; options are an object or a dict."""

from dataclasses import replace
from pathlib import Path

from hpcml.commands.operation import make_options
from hpcml.log import Log
from hpcml.methods import registry
from hpcml.run.merge import merge_models
from hpcml.run.session import Target, open_session
from support.make import by_one_rank


def asked(method, **given):
    given = {name: value for name, value in given.items() if value is not None}
    return make_options(registry.method_named(method).options, f"train {method}", given)


def minimisers():
    return [name for name, method in registry.METHODS.items() if method.losses and method.penalty == "l2"]


def _session(comm, log, signals=None):
    return open_session(comm, log or Log(0 if comm is None else comm.rank), signals)


def train(method, comm, data, output, options=None, force=False, resume=False, log=None, signals=None, **more):
    found = asked(method, **(options or {}) | more) if options is None or isinstance(options, dict) else replace(options, **more)
    with _session(comm, log, signals) as session:
        return registry.train(method, session, Path(data), Target(Path(output), force, resume), found)


def same_as_alone(comm, method, data, folder, options):
    report = train(method, comm, data, folder / "ranks", options)
    alone = by_one_rank(comm, lambda: train(method, None, data, folder / "alone", options))
    assert report.model.read_bytes() == alone.model.read_bytes()
    return report, alone


def merge(comm, runs, output, force=False, log=None):
    with _session(comm, log) as session:
        return merge_models(
            session, list(runs), Target(Path(output), force), lambda method: registry.method_named(method).free_keys
        )


def changed(options, **more):
    return options | more if isinstance(options, dict) else replace(options, **more)
