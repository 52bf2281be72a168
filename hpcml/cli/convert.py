"""`hpcml convert`: a command for each source."""

from cyclopts import App

from hpcml.cli.groups import arrange
from hpcml.commands.convert import Convert
from hpcml.commands.operation import command_of
from hpcml.conversion.sources import SOURCES, options_class

GROUPS = {"Texts": True, "Texts or numbers": None, "Numbers": False}


def convert_app(is_listed: bool) -> App:
    """Return `hpcml convert`, with a command for each source unless it is only listed."""
    app = App(name="convert", help="Make a dataset from texts or numbers in any usual format.")
    for name, source in () if is_listed else SOURCES.items():
        command = command_of(Convert, source=name, options=options_class(source.options)())
        app.command(command, name=name, help=f"{source.about}.")
    arrange(app, {group: [name for name, source in SOURCES.items() if source.is_text is kind] for group, kind in GROUPS.items()})
    return app
