"""The commands `hpcml convert SOURCE`."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from hpcml.cli.groups import arrange
from hpcml.cli.session import Here, Output, Replace, say_once
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import SOURCES, options_class

GROUPS = {"Texts": True, "Texts or numbers": None, "Numbers": False}


def _command(source: str) -> Callable[..., None]:
    kind = options_class(SOURCES[source].options)
    none: Any = kind()

    def command(
        *inputs: Path,
        output: Output,
        options: Annotated[kind, Parameter(name="*")] = none,  # type: ignore[valid-type]
        force: Replace = False,
        session: Here,
    ) -> None:
        """Make a dataset.

        Parameters
        ----------
        inputs:
            Files to read. Text files may be compressed (gz, bz2, xz).
        output:
            HDF5 file to make.
        """
        from hpcml.conversion.convert import convert

        given = ConvertOptions(**vars(options))
        say_once(session, str(convert(session.comm, source, list(inputs), output, given, force, session.log)))

    return command


def convert_app(tokens: Collection[str]) -> App:
    """`hpcml convert`; if it is among `tokens`, with a command for each source."""
    app = App(name="convert", help="Make a dataset from texts or numbers in any usual format.")
    for name, source in SOURCES.items() if "convert" in tokens else ():
        app.command(_command(name), name=name, help=f"{source.about}.")
    arrange(app, {group: [name for name, source in SOURCES.items() if source.is_text is kind] for group, kind in GROUPS.items()})
    return app
