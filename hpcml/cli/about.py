"""The text of `hpcml --version`, and the installation of shell completion."""

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


def format_versions() -> str:
    """Return the versions of hpcml, Python, the MPI library and the file formats. Does not start MPI."""
    os.environ["MPI4PY_RC_INITIALIZE"] = "0"  # under mpirun only rank 0 prints this
    from hpcml.files.hdf5 import VERSIONS
    from hpcml.mpi import library
    from hpcml.version import version

    formats = ", ".join(f"{name} {VERSIONS[name]}" for name in ("dataset", "model", "classifier"))
    return f"{version()}\nPython {platform.python_version()}\n{library()}\nfile formats: {formats}"


def add_completion(app: App) -> None:
    def install(*, shell: Literal["bash", "fish", "zsh"] | None = None, output: Annotated[Path | None, OUTPUT] = None) -> None:
        """Install tab completion for the shell.

        Parameters
        ----------
        shell:
            Shell to configure. Default: the current one.
        output:
            File for the script. Default: the folder of the shell, with a line in ~/.bashrc or ~/.zshrc that loads it.
        """
        from cyclopts.completion.detect import ShellDetectionError

        try:
            startup = [Path.home() / name for name in (".bashrc", ".zshrc")] if output is None else []
            sizes = {file: file.stat().st_size if file.is_file() else 0 for file in startup}
            path = app.install_completion(shell=shell, output=output, add_to_startup=output is None)
        except ShellDetectionError:
            raise ConfigError(f"{INSTALL}: unknown shell; name it with --shell bash, fish or zsh") from None
        except RuntimeError:
            raise ConfigError(f"{INSTALL}: unknown home folder; set HOME, or name a file with --output") from None
        except OSError as error:
            reason, hint = reason_and_hint(error)
            raise ConfigError(f"{INSTALL}: cannot write {error.filename or output}: {reason}{hint}") from None
        grown = [file for file, n in sizes.items() if file.is_file() and file.stat().st_size != n]
        changed = [f"{file}: added a line that loads it" for file in grown]
        say("; ".join([f"{path}: written", *changed, "start a new shell to use it"]), sys.stdout)

    app.command(install, name=INSTALL, show=True)
