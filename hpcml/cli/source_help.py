"""`hpcml convert SOURCE --help`: without the options that the source does not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cyclopts.help import DefaultFormatter, HelpPanel

from hpcml.conversion.sources import SOURCES, foreign_options
from hpcml.options import flag_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions


class SourceHelp(DefaultFormatter):
    """Prints the help of `hpcml convert`; `tokens` may name a source."""

    def __init__(self, tokens: Sequence[str]) -> None:
        super().__init__()
        source = next((token for token in tokens if token in SOURCES), None)
        self.hidden = set() if source is None else {f"--{flag_of(name)}" for name in foreign_options(source)}

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print a panel."""
        entries = [entry for entry in panel.entries if not self.hidden.intersection(entry.positive_names)]
        super().__call__(console, options, panel.copy(entries=entries))
