"""The text of `hpcml --version`, and the completion of commands in shells."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from hpcml.commands.operation import OUTPUT
from hpcml.errors import ConfigError, reason_and_hint
from hpcml.log import say

if TYPE_CHECKING:
    from cyclopts import App

INSTALL = "--install-completion"


def versions() -> str:
    """The versions of this, Python, the MPI library (which is not started) and the file formats."""
    os.environ["MPI4PY_RC_INITIALIZE"] = "0"  # under mpirun only rank 0 comes here
    from hpcml.files.hdf5 import VERSIONS
    from hpcml.mpi import library
    from hpcml.version import version

    formats = ", ".join(f"{name} {VERSIONS[name]}" for name in ("dataset", "model", "classifier"))
    return f"{version()}\nPython {platform.python_version()}\n{library()}\nfile formats: {formats}"


def add_completion(app: App) -> None:
    """Add the command `--install-completion`."""

    def install(*, shell: Literal["bash", "fish", "zsh"] | None = None, output: Annotated[Path | None, OUTPUT] = None) -> None:
        """Let the shell complete commands at the tab key.

        Parameters
        ----------
        shell:
            Whose. Default: the one that runs.
        output:
            Write the script to this file only. Default: where the shell looks, with a line in
            ~/.bashrc or ~/.zshrc to load it.
        """
        from cyclopts.completion.detect import ShellDetectionError

        try:
            startup = [Path.home() / name for name in (".bashrc", ".zshrc")] if output is None else []
            sizes = {file: file.stat().st_size if file.is_file() else 0 for file in startup}
            path = app.install_completion(shell=shell, output=output, add_to_startup=output is None)
        except ShellDetectionError:
            raise ConfigError(f"{INSTALL}: cannot tell which shell this is; name it: --shell bash, fish or zsh") from None
        except RuntimeError:
            raise ConfigError(f"{INSTALL}: no home folder is known; set HOME, or name a file with --output") from None
        except OSError as error:
            reason, hint = reason_and_hint(error)
            raise ConfigError(f"{INSTALL}: cannot write {error.filename or output}: {reason}{hint}") from None
        grown = [file for file, n in sizes.items() if file.is_file() and file.stat().st_size != n]
        changed = [f"{file}: a line added that loads it" for file in grown]
        say("; ".join([f"{path}: written", *changed, "it takes effect in the next shell that you start"]), sys.stdout)

    app.command(install, name=INSTALL, show=True)
