"""`hpcml merge RUN... -o OUTPUT`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Paths, Session, paths_of
from hpcml.errors import ConfigError
from hpcml.options import Flag


@dataclass(frozen=True)
class Merge(Operation[str]):
    """Merge models of parts of the labels, or tabulate runs.

    The parts are those of --label-part. The results of any runs become a table, a .csv.
    """

    runs: Paths
    """Run folders. To join models: those of all parts of one training. To a table: any; those that
    are judged already (`hpcml evaluate --json RUN/measures.json`) with their measures.
    """
    output: Annotated[PathLike, OUTPUT]
    """The run folder to make, or a table NAME.csv: one line a run, with the options in which the runs differ, best first."""
    _: KW_ONLY
    force: Flag = False
    """Replace the output if it exists."""

    def execute(self, session: Session) -> str:
        """Write the model or the table and return what was done. Collective over the session."""
        from hpcml.methods.registry import method_named
        from hpcml.run.merge import merge_models
        from hpcml.run.session import Target
        from hpcml.run.sweep import merge_sweep

        runs, output = paths_of(self.runs), Path(self.output)
        if not runs:
            raise ConfigError("missing RUNS: name the run folders to merge")
        if output.suffix == ".csv":
            return str(merge_sweep(session.comm, runs, output, self.force, lambda method: method_named(method).free_keys))
        return str(merge_models(session, runs, Target(output, self.force), lambda method: method_named(method).free_keys))
