"""`hpcml merge RUN... -o OUTPUT`."""

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Paths, Session
from hpcml.errors import ConfigError
from hpcml.options import Flag


@dataclass(frozen=True)
class Merge(Operation[str]):
    """Merge models of ranges of labels, or tabulate several runs.

    Models are merged if they were trained with --label-part. If the output is a .csv file, the results of the runs are tabulated.
    """

    runs: Paths
    """Run folders: for a model all parts of one training; for a table any runs, with their measures.json of `hpcml evaluate`."""
    output: Annotated[PathLike, OUTPUT]
    """Run folder for the merged model, or file NAME.csv for a table: one line per run, with the options that differ, best first."""
    _: KW_ONLY
    force: Flag = False
    """Replace the output if it exists."""

    def execute(self, session: Session) -> str:
        from hpcml.methods.registry import method_named
        from hpcml.run.merge import merge_models, merge_sweep
        from hpcml.run.session import Target

        def free(method: str) -> Collection[str]:
            return method_named(method).free_keys

        runs = list(self.runs)
        if not runs:
            raise ConfigError("missing RUNS: name the run folders to merge")
        if self.output.suffix == ".csv":
            return merge_sweep(session.comm, runs, self.output, self.force, free)
        return merge_models(session, runs, Target(self.output, self.force), free)
