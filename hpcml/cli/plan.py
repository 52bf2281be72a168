"""The commands `hpcml plan METHOD`: one for each method that can be planned, with its options;
and `hpcml bench machine`.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from hpcml.cli.session import Here, say_once
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS, Method, method_named
from hpcml.options import Flag


def _command(method: Method) -> Callable[..., None]:
    """The command that plans a training with one method."""

    def plan(
        data: Path | None = None,
        /,
        *,
        rows: int | None = None,
        features: int | None = None,
        labels: int | None = None,
        values_per_row: float | None = None,
        nodes: int = 1,
        ranks_per_node: int | None = None,
        memory: float | None = None,
        machine: Path | None = None,
        latency: float | None = None,
        bandwidth: float | None = None,
        pilot: Flag = False,
        options: method.options = method.options(),  # type: ignore[name-defined]  # noqa: B008 - frozen
        json: Path | None = None,
        force: Flag = False,
        session: Here,
    ) -> None:
        """Say what training would take: memory, disk, messages and hours, and the command for it.

        Parameters
        ----------
        data:
            A dataset made with `hpcml convert`. Without it give --rows, --features and --labels.
        rows:
            Plan for so many rows that you do not have yet.
        features:
            And for so many features.
        labels:
            And for so many labels, few of which are on many rows.
        values_per_row:
            Values other than 0 in a row, on average. Default: 70.
        nodes:
            Nodes to run on.
        ranks_per_node:
            Ranks on each node. Default: as many as run this command; 1 without mpirun.
        memory:
            Memory of a node, in GB. Default: what this one has.
        machine:
            The file with the constants of the machine. Default: where `hpcml bench machine` puts
            it.
        latency:
            Seconds of a message between nodes (α), as `hpcml check` prints it. Default: of
            --machine.
        bandwidth:
            GB a second between ranks of different nodes (β), likewise.
        pilot:
            Measure on a sample of the rows of DATA what depends on them, such as passes over the
            rows, with some of the labels.
        json:
            Write the plan to this file.
        force:
            Replace the JSON file if it exists.
        """
        from hpcml.planning.command import commands
        from hpcml.planning.plan import Given, as_json, cluster_of
        from hpcml.planning.plan import plan as work
        from hpcml.planning.report import format_plan, write_json

        if force and json is None:
            raise ConfigError("--force has no effect without --json; leave it out")
        given = Given(rows, features, labels, values_per_row)
        cluster = cluster_of(session.comm, nodes, ranks_per_node, memory, latency, bandwidth)
        found = work(session.comm, method, data, given, cluster, options, machine, pilot, session.log)
        found.command.extend(commands(method.name, data, options, nodes, cluster.ranks_per_node, found.seconds, found.node_bytes))
        if json is not None:
            write_json(session.comm, json, as_json(found), force, data)
        say_once(session, format_plan(found))

    return plan


def plan_app(tokens: Collection[str]) -> App:
    """`hpcml plan`; if it is among `tokens`, with a command for each method that can be planned."""
    app = App(name="plan", help="Say what a training would take, before it is queued.")
    for name, method in METHODS.items() if "plan" in tokens else ():
        if method.forecast:
            about = f"Say what training with {name} would take: memory, disk, messages and hours, and the command for it."
            app.command(_command(method), name=name, help=about)
    return app


def check_method(tokens: list[str]) -> None:
    """Raise ConfigError for a command line of `hpcml plan` whose first word is no method that
    can be planned.
    """
    name = next(iter(tokens[1:2]), "")
    known = [name for name, method in METHODS.items() if method.forecast]
    if name.startswith("-") and not {"--help", "-h"} & set(tokens):
        raise ConfigError(f"plan which method? hpcml plan METHOD DATA; methods: {', '.join(known)}")
    if name and not name.startswith("-") and not method_named(name).forecast:
        raise ConfigError(f"no time model for {name}; there are some for {', '.join(known)}")


def bench_machine(
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    folder: Path = Path(),
    quick: Flag = False,
    force: Flag = False,
    session: Here,
) -> None:
    """Measure what `hpcml plan` must know of this machine, with the real kernels, in about a
    minute; with mpirun on all ranks.

    Parameters
    ----------
    output:
        The file to write. Default: machine.json in ~/.cache/hpcml, for `hpcml plan`.
    folder:
        Where runs will lie: its disk is measured, with a file that is removed again.
    quick:
        A few seconds' worth, to try it out: the constants may be wrong by a factor.
    force:
        Replace the file if it exists.
    """
    from hpcml.planning.machine import default_path, write_to
    from hpcml.planning.measure import measure_machine
    from hpcml.planning.report import format_machine

    path = output or default_path()
    found = write_to(session.comm, path, output is None, force, lambda: measure_machine(session.comm, folder, quick, session.log))
    say_once(session, format_machine(found, path))
